//! One file per kind of route.

pub(super) mod capability;
pub(super) mod discovery;
pub(super) mod health;
pub(super) mod news;
pub(super) mod talk;
