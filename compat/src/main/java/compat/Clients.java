package compat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.Config;
import org.redisson.config.ShardedSubscriptionMode;

/** Connects with Redisson's defaults, but with few idle connections, for a fast start. */
final class Clients {

    /** Room for more than 256 channels, at Redisson's five to a connection. */
    private static final int SUBSCRIPTION_CONNECTIONS = 64;

    /** What the tests give the key stores that they make. */
    private static final String TRUSTSTORE_PASSWORD = "truststore";

    private Clients() {
    }

    static RedissonClient connect(Options options) {
        if (options.yaml() != null) {
            return Redisson.create(fromYaml(options.yaml()));
        }
        Config config = new Config();
        BaseConfig<?> servers = options.cluster() ? cluster(config, options) : single(config, options);
        if (options.watchdogMs() != null) {
            config.setLockWatchdogTimeout(options.watchdogMs());
        }
        if (options.fairWaitMs() != null) {
            config.setFairLockWaitTimeout(options.fairWaitMs());
        }
        if (options.password() != null) {
            Setter.find("setPassword", config, servers).call(options.password());
        }
        if (options.truststore() != null) {
            Setter.find("setSslTruststore", config, servers).call(fileUrl(options.truststore()));
            Setter.find("setSslTruststorePassword", config, servers).call(TRUSTSTORE_PASSWORD);
        }
        if (options.prefix() != null) {
            Setter setter = Setter.find("setNameMapper", config, servers);
            setter.call(prefixMapper(setter.parameterType(), options.prefix()));
        }
        return Redisson.create(config);
    }

    /** A file as services have it, and nothing but what stands there. */
    private static Config fromYaml(String file) {
        try {
            return Config.fromYAML(Path.of(file).toFile());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    static String version() {
        return Redisson.class.getPackage().getImplementationVersion();
    }

    private static URL fileUrl(String path) {
        try {
            return Path.of(path).toUri().toURL();
        } catch (MalformedURLException e) {
            throw new IllegalArgumentException(path, e);
        }
    }

    private static BaseConfig<?> single(Config config, Options options) {
        return config.useSingleServer()
                .setAddress(options.redis())
                .setConnectionPoolSize(64)
                .setConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(SUBSCRIPTION_CONNECTIONS);
    }

    private static BaseConfig<?> cluster(Config config, Options options) {
        var servers = config.useClusterServers();
        if (options.sharded() != null) {
            servers.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(options.sharded()));
        }
        return servers
                .addNodeAddress(options.redis())
                .setMasterConnectionPoolSize(64)
                .setMasterConnectionMinimumIdleSize(1)
                .setSlaveConnectionMinimumIdleSize(1)
                .setSubscriptionConnectionPoolSize(SUBSCRIPTION_CONNECTIONS);
    }

    /** A NameMapper that puts the prefix before every name; its package depends on the version. */
    private static Object prefixMapper(Class<?> mapperType, String prefix) {
        return Proxy.newProxyInstance(
                mapperType.getClassLoader(),
                new Class<?>[] {mapperType},
                (proxy, method, args) -> switch (method.getName()) {
                    case "map" -> prefix + args[0];
                    case "unmap" -> ((String) args[0]).substring(prefix.length());
                    case "hashCode" -> System.identityHashCode(proxy);
                    case "equals" -> proxy == args[0];
                    case "toString" -> "prefix " + prefix;
                    default -> throw new UnsupportedOperationException(method.toString());
                });
    }

    /** A setting that newer versions have in Config, and older ones in the servers' configuration. */
    private record Setter(Object target, Method method) {

        static Setter find(String name, Config config, BaseConfig<?> servers) {
            return Stream.of(config, servers)
                    .flatMap(target -> Arrays.stream(target.getClass().getMethods())
                            .filter(method -> method.getName().equals(name))
                            .map(method -> new Setter(target, method)))
                    .findFirst()
                    .orElseThrow();
        }

        Class<?> parameterType() {
            return method.getParameterTypes()[0];
        }

        void call(Object value) {
            try {
                method.invoke(target, value);
            } catch (IllegalAccessException | InvocationTargetException e) {
                throw new IllegalStateException("cannot call " + method, e);
            }
        }
    }
}
