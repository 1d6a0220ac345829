//! What can go wrong with a request to a simulated store. Each request draws at most one fault.

use glidepath_env::unit_interval;
use glidepath_model::Span;

use crate::luck::Stream;

/// Probabilities per request, and how long a client waits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faults {
    /// The request never reaches the store; the client gives up after `timeout`.
    pub request_lost: f64,
    /// The request takes effect, but its answer is lost; the client gives up after `timeout`.
    pub answer_lost: f64,
    /// The request takes effect only `lateness` after it was sent, long after the client gave up: a zombie write.
    pub late: f64,
    /// The store turns the request away (503).
    pub refused: f64,
    /// The client dies after sending; the request takes effect all the same.
    pub crash: f64,
    /// When a client gives up waiting.
    pub timeout: Span,
    /// How late a late request is.
    pub lateness: Span,
}

impl Default for Faults {
    /// No faults.
    fn default() -> Self {
        let (timeout, lateness) = (Span::from_secs(30), Span::from_secs(120));
        Self { request_lost: 0.0, answer_lost: 0.0, late: 0.0, refused: 0.0, crash: 0.0, timeout, lateness }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    RequestLost,
    AnswerLost,
    Late,
    Refused,
    Crash,
}

impl Faults {
    pub(crate) fn any(&self) -> bool {
        [self.request_lost, self.answer_lost, self.late, self.refused, self.crash].iter().any(|p| *p > 0.0)
    }

    pub(crate) fn draw(&self, luck: &mut Stream) -> Option<Fault> {
        if !self.any() {
            return None;
        }
        let mut left = unit_interval(luck.draw());
        let table = [
            (self.request_lost, Fault::RequestLost),
            (self.answer_lost, Fault::AnswerLost),
            (self.late, Fault::Late),
            (self.refused, Fault::Refused),
            (self.crash, Fault::Crash),
        ];
        for (probability, fault) in table {
            if left < probability {
                return Some(fault);
            }
            left -= probability;
        }
        None
    }
}
