package compat;

/** Starts threads that do not keep the process alive. */
final class Threads {

    private Threads() {
    }

    static Thread start(String name, Runnable task) {
        Thread thread = new Thread(task, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }
}
