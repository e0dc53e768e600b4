//! Redisson's settings that have no meaning here, of 3.11 to 4.7, and why.

const IGNORED: &[(&str, &str)] = &[
    (
        "a client has one connection for commands and one for messages, to each master",
        "connectionMinimumIdleSize connectionPoolSize idleConnectionTimeout masterConnectionMinimumIdleSize masterConnectionPoolSize
         slaveConnectionMinimumIdleSize slaveConnectionPoolSize slaveSubscriptionConnectionMinimumIdleSize
         slaveSubscriptionConnectionPoolSize subscriptionConnectionMinimumIdleSize subscriptionConnectionPoolSize
         subscriptionsPerConnection",
    ),
    (
        "connections are looked after in a way of its own",
        "dnsMonitoring dnsMonitoringInterval dnsMonitoringTimes failedAttempts keepAlive pingConnectionInterval pingTimeout
         reconnectionDelay reconnectionTimeout scanInterval subscriptionTimeout tcpKeepAlive tcpKeepAliveCount tcpKeepAliveIdle
         tcpKeepAliveInterval tcpNoDelay tcpUserTimeout",
    ),
    (
        "all is read from and written to the master",
        "checkSlaveStatusWithSyncing failedSlaveCheckInterval failedSlaveNodeDetector failedSlaveReconnectionInterval
         fallbackLoadingToMaster loadBalancer readMode slaveAddresses subscriptionMode",
    ),
    (
        "the serving node is asked for in a way of its own",
        "checkMasterLinkStatus checkSentinelsList checkSlotsCoverage monitorIPChanges sentinelsDiscovery",
    ),
    ("servers are reached at the addresses that they tell", "natMap natMapper"),
    (
        "it is about Java",
        "addressResolverGroupFactory codec connectionListener decodeInExecutor eventLoopGroup executor lazyInitialization nettyExecutor
         nettyHook nettyThreads redissonReferenceEnabled referenceCodecProvider referenceEnabled threads transportMode
         useLinuxNativeEpoll useScriptCache useThreadClassLoader",
    ),
    (
        "it is about other objects of Redisson's",
        "cleanUpKeysAmount keepPubSubOrder lockWatchdogBatchSize maxCleanUpDelay minCleanUpDelay reliableTopicWatchdogTimeout",
    ),
    (
        "replicas are waited for where ClientBuilder::wait_for_replicas says so",
        "checkLockSyncedSlaves slavesSyncTimeout",
    ),
    (
        "commands have their own names, and nothing is asked for that only some servers know",
        "commandMapper valkeyCapabilities",
    ),
    ("ClientBuilder::credentials takes a provider of credentials", "credentialsResolver"),
    ("it is about Redisson PRO", "registrationKey"),
    (
        "versions and ciphers are those of the TLS library; a TrustManagerFactory and a KeyManagerFactory are Java's",
        "sslCiphers sslKeyManagerFactory sslKeystorePassword sslKeystoreType sslProtocols sslProvider sslTrustManagerFactory
         sslTruststorePassword",
    ),
];

/// Why a setting is ignored, wherever in the file it stands; nothing for one that is not known.
pub(super) fn reason(key: &str) -> Option<&'static str> {
    let group = IGNORED
        .iter()
        .find(|(_, keys)| keys.split_whitespace().any(|known| known == key));
    group.map(|(reason, _)| *reason)
}
