//! [`LimitLayer`]: a limit that all replicas of a service share, for services in the form of tower.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::timeout;
use tower_layer::Layer;
use tower_service::Service;

use crate::api::{Permit, Semaphore};
use crate::error::Error;

/// Why a request has not been let in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// The permits were not free in time: the service is busy.
    NotInTime,
    /// There is no such semaphore: nobody has set its permits, or Redis has lost them. See [`LimitLayer::limit`].
    Missing,
    /// Redis did not answer in time. Should it still grant the permits, they are given back.
    Unanswered,
    /// It went wrong.
    Failed(Error),
}

/// Lets a request in with permits of a semaphore, which all replicas of a service share, those in Java too.
///
/// A request waits for its permits, for a time, and holds them until the response is there: its head, where the body is
/// sent later. A function of the user's answers a request that is not let in, with a response or an error of the service's own.
///
/// [The examples](crate::guide::examples) have an axum service with it.
///
/// A client that goes away, waiting or served, leaves nothing taken. Shut the [`Client`](crate::Client) down after
/// the server: it sends the releases that are left.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::convert::Infallible;
/// use std::sync::Arc;
/// use std::time::Duration;
/// use redisson_semaphore::{memory, tower::{LimitLayer, Refused}};
/// use tower::{Layer, Service, ServiceExt, service_fn};
///
/// let seats = memory::Semaphore::with_permits("seats", 1);         // or client.semaphore("seats")
/// let limit = LimitLayer::new(Arc::new(seats), Duration::from_millis(300), |refused| match refused {
///     Refused::NotInTime => Ok("429 come again"),
///     _ => Ok("503 limits are not to be had"),
/// });
/// let mut service = limit.layer(service_fn(async |_request: ()| Ok::<_, Infallible>("200")));
/// assert_eq!(service.ready().await?.call(()).await?, "200");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct LimitLayer<F> {
    limit: Limit,
    refuse: F,
}

/// The settings of a limit.
#[derive(Debug, Clone)]
struct Limit {
    semaphore: Arc<dyn Semaphore>,
    permits: u32,
    wait: Duration,
    answer_time: Duration,
    /// The permits that a missing semaphore is made with.
    limit: Option<u32>,
}

impl<F> LimitLayer<F> {
    /// One permit a request, for which it waits for `wait` at the most; `refuse` answers a request that is not let in.
    pub fn new(semaphore: Arc<dyn Semaphore>, wait: Duration, refuse: F) -> Self {
        LimitLayer {
            limit: Limit {
                semaphore,
                permits: 1,
                wait,
                answer_time: Duration::from_secs(1),
                limit: None,
            },
            refuse,
        }
    }

    /// So many permits a request.
    #[must_use]
    pub fn permits(mut self, permits: u32) -> Self {
        self.limit.permits = permits;
        self
    }

    /// The semaphore has so many permits: a request that finds it missing, as after a `FLUSHALL`, sets them
    /// ([`try_set_permits`](Semaphore::try_set_permits)) behind its wait, and asks once more. Without this it is [`Refused::Missing`].
    #[must_use]
    pub fn limit(mut self, limit: u32) -> Self {
        self.limit.limit = Some(limit);
        self
    }

    /// How much longer than the wait Redis may take to answer, before the request is [`Refused::Unanswered`]; 1 s by default.
    #[must_use]
    pub fn answer_time(mut self, time: Duration) -> Self {
        self.limit.answer_time = time;
        self
    }
}

impl<F> fmt::Debug for LimitLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.limit.fmt(f)
    }
}

impl<S, F: Clone> Layer<S> for LimitLayer<F> {
    type Service = Limited<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        Limited {
            inner,
            layer: self.clone(),
        }
    }
}

/// A service behind a [`LimitLayer`].
#[derive(Clone, Debug)]
pub struct Limited<S, F> {
    inner: S,
    layer: LimitLayer<F>,
}

impl<S, F, Request> Service<Request> for Limited<S, F>
where
    S: Service<Request> + Clone + Send + 'static,
    S::Future: Send,
    F: Fn(Refused) -> Result<S::Response, S::Error> + Clone + Send + 'static,
    Request: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        // It is this one that has said that it is ready, and not its clone.
        let next = self.inner.clone();
        let mut ready = std::mem::replace(&mut self.inner, next);
        let LimitLayer { limit, refuse } = self.layer.clone();
        Box::pin(async move {
            let time = limit.wait.saturating_add(limit.answer_time);
            let taken = timeout(time, limit.take()).await;
            match taken.unwrap_or(Err(Refused::Unanswered)) {
                Ok(_held) => ready.call(request).await,
                Err(refused) => refuse(refused),
            }
        })
    }
}

impl Limit {
    async fn take(&self) -> Result<Permit, Refused> {
        let semaphore = &self.semaphore;
        if let Some(permit) = semaphore.permit_for(self.permits, self.wait).await? {
            return Ok(permit);
        }
        if semaphore.exists().await? {
            return Err(Refused::NotInTime);
        }
        semaphore
            .try_set_permits(self.limit.ok_or(Refused::Missing)?)
            .await?;
        let permit = semaphore.try_permit(self.permits).await?;
        permit.ok_or(Refused::NotInTime)
    }
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused::Failed(error)
    }
}
