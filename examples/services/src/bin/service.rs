//! An axum service as it stands in front of users: it starts while Redis is away, tells when it is ready, and ends by
//! SIGTERM or Ctrl-C when its requests have been answered and Redis has its permits back.

use std::env::var;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use redisson_semaphore::tower::{LimitLayer, Refused};
use redisson_semaphore::{Client, Semaphore};
use tokio::signal::unix::{SignalKind, signal};

/// How many reports all replicas make at once.
const AT_ONCE: u32 = 2;
/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_millis(300);

/// The routes. The limit is for the reports alone: a probe must not wait behind them.
fn routes(client: Client, seats: Arc<dyn Semaphore>) -> Router {
    let limit = LimitLayer::new(seats, WAIT, |refused| Ok(refuse(&refused)));
    let reports = Router::new().route("/report", get(report)).layer(limit);
    let probes = Router::new().route("/ready", get(ready)).with_state(client);
    reports.merge(probes)
}

async fn report() -> &'static str {
    tokio::time::sleep(Duration::from_secs(1)).await;
    "a report\n"
}

fn refuse(refused: &Refused) -> Response {
    match refused {
        Refused::NotInTime => (StatusCode::TOO_MANY_REQUESTS, "too many reports\n").into_response(),
        refused => {
            eprintln!("no limit to be had: {refused:?}");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

async fn ready(State(client): State<Client>) -> Response {
    match client.ping().await {
        Ok(()) => "ready\n".into_response(),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")).into_response(),
    }
}

/// Sets the limit as soon as Redis is there, unless another replica has; the semaphore has none until then.
async fn set_limit(client: Client) {
    let seats = client.semaphore("reports");
    while let Err(error) = seats.try_set_permits(AT_ONCE).await {
        eprintln!("the limit is not set: {error}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::builder(url).client_name("reports").connect_lazy()?;
    let setting = tokio::spawn(set_limit(client.clone()));

    let app = routes(client.clone(), Arc::new(client.semaphore("reports")));
    let listen = var("LISTEN").unwrap_or("127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        })
        .await?;

    // No request is left that could hold permits: what they gave back is carried out now.
    setting.abort();
    client.shutdown().await?;
    Ok(())
}
