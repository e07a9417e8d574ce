//! Whether a talk's answer may come later: `Prefer: respond-async, wait=N` (RFC 7240), or the dispatch form.

use std::time::Duration;

use crate::restap::talk::Dispatch;
use crate::restap::{Delivery, Prefer};

/// A talk that is answered later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Later {
    /// How the caller asked for it.
    pub form: Form,
    /// Answer at once what is done within this time.
    pub wait: Option<Duration>,
}

/// How a caller asks for an answer that comes later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `Prefer: respond-async`.
    Prefer,
    /// A body with both `dispatch_id` and `query_id`.
    Dispatch,
}

impl Later {
    /// A caller who is streamed to has its answer at once, whatever it prefers.
    pub(super) fn of(prefer: Prefer, dispatch: &Dispatch, delivery: Delivery) -> Option<Self> {
        let form = match dispatch {
            _ if delivery == Delivery::Stream => return None,
            Dispatch { dispatch_id: Some(_), query_id: Some(_) } => Form::Dispatch,
            _ if prefer.respond_async => Form::Prefer,
            _ => return None,
        };
        Some(Self { form, wait: prefer.wait })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dispatch_form_needs_both_ids_and_a_stream_is_never_later() {
        let both = Dispatch { dispatch_id: Some("d".into()), query_id: Some("q".into()) };
        let one = Dispatch { dispatch_id: Some("d".into()), query_id: None };
        let none = Prefer::default();
        assert_eq!(Later::of(none, &both, Delivery::Json), Some(Later { form: Form::Dispatch, wait: None }));
        assert_eq!(Later::of(none, &one, Delivery::Json), None);
        assert_eq!(Later::of(Prefer { respond_async: true, wait: None }, &both, Delivery::Stream), None);
    }
}
