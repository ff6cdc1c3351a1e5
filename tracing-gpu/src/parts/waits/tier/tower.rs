//! Servers on tower, such as those of axum, tonic and hyper: a layer that follows each response future.

use std::task::{Context, Poll};

use tower_layer::Layer;
use tower_service::Service;

use crate::parts::waits::tier::follow::{Follow, follow};

/// Follows the future of each response, as [`follow`](crate::follow()) does: who made a request wait is then known.
///
/// It belongs directly around the layer that makes the span of a request, such as tower-http's `TraceLayer`. In a
/// `ServiceBuilder` it comes before that layer:
///
/// ```text
/// ServiceBuilder::new().layer(FollowLayer::new()).layer(TraceLayer::new_for_http())
/// ```
///
/// and in calls of axum's `Router::layer`, the last of which is the outermost, after it:
///
/// ```text
/// router.layer(TraceLayer::new_for_http()).layer(FollowLayer::new())
/// ```
///
/// Without such a layer, the first span that is entered in the future is the one whose waits are known. A wait in
/// `poll_ready` precedes the future, and is not known.
///
/// ```
/// use std::convert::Infallible;
/// use std::future::{Ready, ready};
/// use std::task::{Context, Poll};
///
/// use tower_layer::Layer;
/// use tower_service::Service;
/// use tracing::Instrument as _;
/// use tracing::instrument::Instrumented;
/// use tracing_gpu::tower::FollowLayer;
///
/// struct Greeter;
///
/// impl Service<&str> for Greeter {
///     type Response = String;
///     type Error = Infallible;
///     type Future = Instrumented<Ready<Result<String, Infallible>>>;
///
///     fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
///         Poll::Ready(Ok(()))
///     }
///
///     fn call(&mut self, name: &str) -> Self::Future {
///         ready(Ok(format!("hello {name}"))).instrument(tracing::info_span!("request"))
///     }
/// }
///
/// let mut server = FollowLayer::new().layer(Greeter);
/// let mut context = Context::from_waker(std::task::Waker::noop());
/// assert!(server.poll_ready(&mut context).is_ready());
/// let response = std::pin::pin!(server.call("you"));
/// assert_eq!(response.poll(&mut context), Poll::Ready(Ok("hello you".to_owned())));
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct FollowLayer;

impl FollowLayer {
    /// A layer for any service.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl<S> Layer<S> for FollowLayer {
    type Service = FollowService<S>;

    fn layer(&self, inner: S) -> FollowService<S> {
        FollowService { inner }
    }
}

/// The service that [`FollowLayer`] makes of another.
#[derive(Clone, Copy, Debug, Default)]
pub struct FollowService<S> {
    inner: S,
}

impl<S: Service<R>, R> Service<R> for FollowService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = Follow<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        follow(self.inner.call(request))
    }
}
