package compat.recipes;

/** A recipe over Jedis, step by step as services write it. Nothing waits here but where the recipe does. */
interface Recipe {

    /** Returns an id, or null. */
    String acquire() throws InterruptedException;

    /** Returns whether it was held. */
    boolean release(String holder);

    boolean refresh(String holder);
}
