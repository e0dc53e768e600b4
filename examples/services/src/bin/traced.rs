//! Waits and holds in the traces of a service, by OpenTelemetry: the span of a job has one child for the time that it waited, `wait`,
//! and one for the time that it held its permit, `hold`, with the semaphore's name on both.
//!
//! The exporter writes to standard output here; a service takes that of `opentelemetry-otlp` in its place.

use std::env::var;
use std::error::Error;
use std::time::Duration;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use redisson_semaphore::{Client, RSemaphore};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

async fn import(seats: &RSemaphore) -> redisson_semaphore::Result<()> {
    let seat = seats.permit(1).await?;
    tokio::time::sleep(Duration::from_millis(100)).await;
    seat.release().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let exporter = opentelemetry_stdout::SpanExporter::default();
    let provider = SdkTracerProvider::builder()
        .with_simple_exporter(exporter)
        .build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("imports"));
    tracing_subscriber::registry().with(spans).init();

    let url = var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".to_owned());
    let client = Client::connect(url).await?; // with the crate's feature "spans"
    let seats = client.semaphore("imports");
    seats.try_set_permits(1).await?;
    let jobs = [1, 2].map(|job| import(&seats).instrument(tracing::info_span!("import", job)));
    futures::future::try_join_all(jobs).await?;

    client.shutdown().await?;
    provider.shutdown()?; // exports what is left
    Ok(())
}
