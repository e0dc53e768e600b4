//! A limit that all replicas of a service share: the first of the guide's examples.

use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};
use redisson_semaphore::Client;
use redisson_semaphore::tower::{LimitLayer, Refused};
use std::{env::var, error::Error, sync::Arc, time::Duration};
use tokio::signal::{
    ctrl_c,
    unix::{SignalKind, signal},
};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;
    let seats = client.semaphore("seats"); // Java: redisson.getSemaphore("seats")
    seats.try_set_permits(8).await?; // does nothing where the semaphore exists; set_permits changes it

    let limit = LimitLayer::new(Arc::new(seats), Duration::from_millis(300), |refused| {
        let status = match refused {
            Refused::NotInTime => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE, // Redis is away, or says no
        };
        Ok(status.into_response())
    })
    .limit(8); // sets it again after a FLUSHALL
    let work = get(|| tokio::time::sleep(Duration::from_secs(1))); // takes a second
    let app = Router::new().route("/", work).layer(limit);
    let listen = var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned());
    let server = axum::serve(tokio::net::TcpListener::bind(listen).await?, app);
    let mut term = signal(SignalKind::terminate())?; // from Kubernetes, systemd, docker stop
    let stop = async move {
        tokio::select! { _ = ctrl_c() => (), _ = term.recv() => () }
    };
    server.with_graceful_shutdown(stop).await?;
    client.shutdown().await?; // sends the releases that are still to be sent
    Ok(())
}
