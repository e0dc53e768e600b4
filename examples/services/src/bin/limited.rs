//! A limit that all replicas of a service share: the first of the guide's examples.

use axum::{Router, http::StatusCode, response::IntoResponse, routing::get};
use redisson_semaphore::Client;
use redisson_semaphore::tower::{LimitLayer, Refused};
use std::{env::var, error::Error, sync::Arc, time::Duration};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?;
    let seats = client.semaphore("seats"); // Java: redisson.getSemaphore("seats")
    seats.set_permits(8).await?; // the limit of this deployment; counts the permits of guards

    let limit = LimitLayer::new(Arc::new(seats), Duration::from_millis(300), |refused| {
        let status = match refused {
            Refused::NotInTime => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::SERVICE_UNAVAILABLE, // Redis is away, or says no
        };
        Ok(status.into_response())
    });
    let work = get(|| tokio::time::sleep(Duration::from_secs(1))); // takes a second
    let app = Router::new().route("/", work).layer(limit);
    let listen = var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned());
    let server = axum::serve(tokio::net::TcpListener::bind(listen).await?, app);
    let stop = async { tokio::signal::ctrl_c().await.expect("a signal handler") };
    server.with_graceful_shutdown(stop).await?;
    client.shutdown().await?; // sends the releases that are still to be sent
    Ok(())
}
