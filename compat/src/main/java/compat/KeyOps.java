package compat;

import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;

/** The semaphore's key as a whole: existence, names, copies. */
final class KeyOps {

    private final RedissonClient client;

    KeyOps(RedissonClient client) {
        this.client = client;
    }

    void addTo(Ops ops) {
        ops.add("delete", c -> key(c).delete(), c -> key(c).deleteAsync());
        ops.add("unlink", c -> key(c).unlink(), c -> key(c).unlinkAsync());
        ops.add("isExists", c -> key(c).isExists(), c -> key(c).isExistsAsync());
        ops.add("touch", c -> key(c).touch(), c -> key(c).touchAsync());
        ops.add("sizeInMemory", c -> key(c).sizeInMemory(), c -> key(c).sizeInMemoryAsync());
        ops.add("rename",
                c -> {
                    key(c).rename(c.text("newName"));
                    return null;
                },
                c -> key(c).renameAsync(c.text("newName")));
        ops.add("renamenx",
                c -> key(c).renamenx(c.text("newName")),
                c -> key(c).renamenxAsync(c.text("newName")));
        ops.add("copy",
                c -> key(c).copy(c.text("dest")),
                c -> key(c).copyAsync(c.text("dest")));
        ops.add("copyAndReplace",
                c -> key(c).copyAndReplace(c.text("dest")),
                c -> key(c).copyAndReplaceAsync(c.text("dest")));
    }

    private RSemaphore key(Command command) {
        return client.getSemaphore(command.name());
    }
}
