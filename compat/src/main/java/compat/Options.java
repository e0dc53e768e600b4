package compat;

/** What the command line says. */
record Options(String redis, String password, String prefix, boolean cluster, Long watchdogMs, String truststore,
        String sharded, String yaml, Long fairWaitMs) {

    static Options parse(String[] args) {
        String redis = null;
        String password = null;
        String prefix = null;
        boolean cluster = false;
        Long watchdogMs = null;
        String truststore = null;
        String sharded = null;
        String yaml = null;
        Long fairWaitMs = null;
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--redis" -> redis = valueOf(args, i++);
                case "--password" -> password = valueOf(args, i++);
                case "--prefix" -> prefix = valueOf(args, i++);
                case "--cluster" -> cluster = true;
                case "--watchdog" -> watchdogMs = Long.valueOf(valueOf(args, i++));
                case "--truststore" -> truststore = valueOf(args, i++);
                case "--sharded" -> sharded = valueOf(args, i++);
                case "--yaml" -> yaml = valueOf(args, i++);
                case "--fair-wait" -> fairWaitMs = Long.valueOf(valueOf(args, i++));
                default -> throw new IllegalArgumentException("unknown option " + args[i]);
            }
        }
        if (redis == null) {
            throw new IllegalArgumentException("--redis redis://HOST:PORT is required");
        }
        return new Options(redis, password, prefix, cluster, watchdogMs, truststore, sharded, yaml,
                fairWaitMs);
    }

    private static String valueOf(String[] args, int option) {
        if (option + 1 == args.length) {
            throw new IllegalArgumentException(args[option] + " needs a value");
        }
        return args[option + 1];
    }
}
