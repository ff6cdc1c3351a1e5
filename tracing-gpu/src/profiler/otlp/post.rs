//! The HTTP client that the exporter of `opentelemetry-otlp` is given. It sends our message in place of an empty one.

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use parking_lot::Mutex;

/// The longest answer that is read.
const LONGEST_ANSWER: u64 = 1 << 20;

#[derive(Debug)]
pub(super) struct Post {
    agent: ureq::Agent,
    message: Mutex<Vec<u8>>,
    error: Mutex<Option<String>>,
}

impl Post {
    pub(super) fn new(timeout: Duration) -> Self {
        let config = ureq::Agent::config_builder().timeout_global(Some(timeout)).http_status_as_error(false);
        Self { agent: config.build().into(), message: Mutex::default(), error: Mutex::default() }
    }

    /// Sets what is sent.
    pub(super) fn set(&self, message: Vec<u8>) {
        *self.message.lock() = message;
    }

    /// Why the last request did not get an answer.
    pub(super) fn take_error(&self) -> Option<String> {
        self.error.lock().take()
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let mut request = request.map(|_empty| &self.message);
        request.headers_mut().remove("content-encoding"); // of the empty one
        let (parts, message) = request.into_parts();
        let answer = self.agent.run(Request::from_parts(parts, &**message.lock()))?;
        let (parts, mut body) = answer.into_parts();
        Ok(Response::from_parts(parts, body.with_config().limit(LONGEST_ANSWER).read_to_vec()?.into()))
    }
}

impl HttpClient for Post {
    fn send_bytes<'a, 'b>(
        &'a self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        let answer = self.send(request).map_err(|error| {
            *self.error.lock() = Some(error.to_string());
            error.into()
        });
        Box::pin(std::future::ready(answer))
    }
}

/// The output of a future that waits for nothing: requests block, and the library sleeps between repetitions.
pub(super) fn ready(future: impl Future<Output = OTelSdkResult>) -> OTelSdkResult {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => Err(OTelSdkError::InternalFailure("the exporter waits".to_owned())),
    }
}
