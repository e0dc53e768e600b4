//! Redisson's settings that have no meaning here, of 3.11 to 4.7, and why.

/// A reason, and the settings that it is about, with blanks between them.
pub(super) type Group = (&'static str, &'static str);

const CONNECTIONS: Group = (
    "a client has one connection for commands and one for messages, to each master",
    "connectionMinimumIdleSize connectionPoolSize idleConnectionTimeout masterConnectionMinimumIdleSize \
     masterConnectionPoolSize slaveConnectionMinimumIdleSize slaveConnectionPoolSize \
     slaveSubscriptionConnectionMinimumIdleSize slaveSubscriptionConnectionPoolSize \
     subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize subscriptionsPerConnection",
);

const LIVENESS: Group = (
    "connections are looked after in a way of its own",
    "dnsMonitoring dnsMonitoringInterval dnsMonitoringTimes failedAttempts keepAlive pingConnectionInterval \
     pingTimeout reconnectionDelay reconnectionTimeout scanInterval subscriptionTimeout tcpKeepAlive \
     tcpKeepAliveCount tcpKeepAliveIdle tcpKeepAliveInterval tcpNoDelay tcpUserTimeout",
);

const RETRIES: Group = (
    "a call without a reply is repeated for as long as ClientBuilder::retry_window says",
    "retryAttempts retryDelay retryInterval",
);

const REPLICAS: Group = (
    "all is read from and written to the master",
    "checkSlaveStatusWithSyncing failedSlaveCheckInterval failedSlaveNodeDetector \
     failedSlaveReconnectionInterval fallbackLoadingToMaster loadBalancer readMode slaveAddresses \
     subscriptionMode",
);

const DISCOVERY: Group = (
    "who serves is asked for in a way of its own",
    "checkMasterLinkStatus checkSentinelsList checkSlotsCoverage monitorIPChanges sentinelsDiscovery",
);

const ADDRESSES: Group = (
    "servers are reached at the addresses that they tell",
    "natMap natMapper",
);

const JAVA: Group = (
    "it is about Java",
    "addressResolverGroupFactory codec connectionListener decodeInExecutor eventLoopGroup executor \
     lazyInitialization nettyExecutor nettyHook nettyThreads redissonReferenceEnabled referenceCodecProvider \
     referenceEnabled threads transportMode useLinuxNativeEpoll useScriptCache useThreadClassLoader",
);

const OTHERS: Group = (
    "it is about other objects of Redisson's",
    "cleanUpKeysAmount keepPubSubOrder lockWatchdogBatchSize maxCleanUpDelay minCleanUpDelay \
     reliableTopicWatchdogTimeout",
);

const WAIT: Group = (
    "replicas are waited for where ClientBuilder::wait_for_replicas says so",
    "checkLockSyncedSlaves slavesSyncTimeout",
);

const PROTOCOL: Group = (
    "commands have their own names, and nothing is asked for that only some servers know",
    "commandMapper valkeyCapabilities",
);

const CREDENTIALS: Group = (
    "ClientBuilder::credentials takes a provider of credentials",
    "credentialsResolver",
);

const PAID: Group = ("it is about Redisson PRO", "registrationKey");

const TLS: Group = (
    "versions and ciphers are those of the TLS library; a TrustManagerFactory and a KeyManagerFactory are Java's",
    "sslCiphers sslKeyManagerFactory sslKeystorePassword sslKeystoreType sslProtocols sslProvider \
     sslTrustManagerFactory sslTruststorePassword",
);

const STORES: Group = (
    "Java's key stores are not read: give ClientBuilder::tls the certificates in PEM",
    "sslKeystore sslTruststore",
);

/// Beside the servers.
pub(super) const COMMON: &[Group] = &[
    JAVA,
    OTHERS,
    WAIT,
    PROTOCOL,
    CREDENTIALS,
    TLS,
    STORES,
    LIVENESS,
    PAID,
];

/// Among the servers' settings.
pub(super) const SERVERS: &[Group] = &[
    CONNECTIONS,
    LIVENESS,
    RETRIES,
    REPLICAS,
    DISCOVERY,
    ADDRESSES,
    PROTOCOL,
    CREDENTIALS,
    TLS,
    STORES,
];
