//! Futures that wait for nothing: code that is written once, for callers that wait and for callers
//! that may not.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// The result of a future that is ready at its first poll.
///
/// # Panics
/// If it is not, which is a fault of the code that made it.
pub fn ready<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("a future that waits for nothing is ready at its first poll"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_nothing_is_ready() {
        let next = async |n: u32| n + 1;
        assert_eq!(ready(async { next(next(1).await).await }), 3);
    }

    #[test]
    #[should_panic(expected = "ready at its first poll")]
    fn what_waits_is_a_fault() {
        ready(std::future::pending::<()>());
    }
}
