package compat;

import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/** Turns failures into the text of an error answer. */
final class Errors {

    private Errors() {
    }

    static String describe(Throwable failure) {
        Throwable error = failure;
        while ((error instanceof CompletionException || error instanceof ExecutionException)
                && error.getCause() != null) {
            error = error.getCause();
        }
        String text = error.getClass().getSimpleName();
        if (error.getMessage() != null) {
            text += ": " + error.getMessage();
        }
        // The classes are compiled against the newest Redisson; an older one may lack a method.
        return error instanceof LinkageError ? "Unsupported: " + text : text;
    }
}
