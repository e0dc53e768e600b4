//! A name mapper is the user's code: it may panic on a name that it does not know, or use the client itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use crate::support::clients::{LIMIT, builder, stored};
use crate::support::server::RedisServer;
use futures::future::join_all;
use redisson_semaphore::{Client, LeasedSemaphore as _, Lock as _, NameMapper};
use tokio::time::timeout;

/// Knows the names `known-...` only.
fn strict() -> NameMapper {
    NameMapper::custom(|name| {
        assert!(name.starts_with("known-"), "an unknown name");
        format!("mapped-{name}")
    })
}

#[tokio::test]
async fn a_mapper_that_panics_on_unknown_names_harms_nobody_else() {
    let server = RedisServer::start().await;
    let client = builder(server.url())
        .name_mapper(strict())
        .connect()
        .await
        .unwrap();
    let unknown: [&dyn Fn(); 2] = [&|| drop(client.semaphore("other")), &|| {
        drop(client.lock("other"))
    }];
    for make in unknown {
        catch_unwind(AssertUnwindSafe(make)).expect_err("the mapper panics");
    }
    // Recipes map their names at the first call.
    let recipe = client.timestamp_semaphore("other", 3);
    let calls = tokio::spawn(async move { recipe.try_acquire().await });
    calls.await.expect_err("the mapper panics");
    let lock = client.string_lock("other");
    let calls = tokio::spawn(async move { lock.try_lock().await });
    calls.await.expect_err("the mapper panics");
    // Calls on many semaphores travel together, under names of the client's own.
    let semaphores: Vec<_> = (0..20)
        .map(|number| client.semaphore(&format!("known-{number}")))
        .collect();
    let calls = semaphores.iter().map(async |semaphore| {
        semaphore.release(2).await.unwrap();
        semaphore.acquire(1).await.unwrap();
    });
    timeout(LIMIT, join_all(calls)).await.expect("they end");
    let recipe = client.timestamp_semaphore("known-recipe", 3);
    assert!(recipe.try_acquire().await.unwrap().is_some());
    assert!(client.lock("known-lock").try_lock().await.unwrap());
    drop(semaphores[0].permit(1).await.unwrap());
    timeout(LIMIT, client.shutdown())
        .await
        .expect("it ends")
        .unwrap();
    assert_eq!(stored(&server, "mapped-known-0").await, ["1"]);
}

/// Not under a lock that the client needs for it.
#[tokio::test]
async fn a_mapper_may_use_the_client() {
    static CLIENT: OnceLock<Client> = OnceLock::new();
    let server = RedisServer::start().await;
    let mapper = NameMapper::custom(|name| {
        if let Some(client) = CLIENT.get()
            && name == "outer"
        {
            drop(client.semaphore("inner"));
        }
        name.to_owned()
    });
    let client = builder(server.url()).name_mapper(mapper).connect();
    let client = CLIENT.get_or_init({
        let client = client.await.unwrap();
        || client
    });
    let runtime = tokio::runtime::Handle::current();
    let (done, made) = tokio::sync::oneshot::channel();
    // The thread is a separate one: if it hangs, the test can still end.
    std::thread::spawn(move || {
        drop(client.semaphore("outer"));
        let recipe = client.timestamp_semaphore("outer", 1);
        let _ = done.send(runtime.block_on(recipe.try_acquire()));
    });
    let made = timeout(LIMIT, made).await.expect("it hangs").unwrap();
    assert!(made.unwrap().is_some());
}
