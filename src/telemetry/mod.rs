//! What operators see: logs, metrics, readiness.

pub mod health;
pub mod logs;
pub mod metrics;
pub mod settings;
pub mod store_metrics;
pub mod supervisor;

pub use health::{Health, Phase};
pub use logs::AccessLog;
pub use metrics::Metrics;
pub use settings::Settings;
pub use store_metrics::{StoreMetrics, StoreState};
