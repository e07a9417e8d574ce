//! The schema and its versions, the key that the store was made with, and the settings that break its promise.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

use super::line::full;
use super::{Param, Shared};
use crate::store::shared::{Kept, Problem};

/// Every version's step from the one before. A released step is never changed.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// Held while the schema is made: gateways that start at once make it one after the other.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7165074926181442930)";

const VERSION: &str = "version";
const WRAP: &str = "wrap:";

/// Judges a server that was just connected to: brings the schema to our version, takes the key, names unsafe settings.
pub(super) async fn admit(client: &Client, shared: &Shared) -> Result<(), Problem> {
    let away = |error: Error| Problem::Away(full(&error));
    if version(client).await.map_err(away)? != Some(MIGRATIONS.len()) {
        // The connection is ours alone, and is closed after an error: nothing stays open.
        client.batch_execute("BEGIN").await.map_err(away)?;
        client.batch_execute(LOCK).await.map_err(away)?;
        migrate(client).await?;
        client.batch_execute("COMMIT").await.map_err(away)?;
    }
    client.batch_execute(&format!("BEGIN; {LOCK}")).await.map_err(away)?;
    let rotated = rotate(client, shared).await;
    client.batch_execute(if rotated.is_ok() { "COMMIT" } else { "ROLLBACK" }).await.map_err(away)?;
    rotated?;
    shared.status.warn(unsafe_settings(client).await.map_err(away)?);
    Ok(())
}

/// `None` for a database that has nothing of ours.
async fn version(client: &Client) -> Result<Option<usize>, Error> {
    // Read from the catalogue itself: what the server remembers of it may be from before we had the lock.
    let made = "SELECT EXISTS (SELECT FROM pg_catalog.pg_tables WHERE schemaname = 'restap' AND tablename = 'meta')";
    let row = client.query_typed_one(made, &[]).await?;
    if !row.try_get::<_, bool>(0)? {
        return Ok(None);
    }
    let row =
        client.query_typed_opt("SELECT value FROM restap.meta WHERE name = $1", &[(&VERSION, Type::TEXT)]).await?;
    let value: Option<Vec<u8>> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(value.and_then(|value| String::from_utf8(value).ok()?.parse().ok()))
}

async fn migrate(client: &Client) -> Result<(), Problem> {
    let away = |error: Error| Problem::Away(full(&error));
    let version = version(client).await.map_err(away)?.unwrap_or(0);
    let steps = MIGRATIONS.get(version..).ok_or_else(|| {
        Problem::Refused("a newer version of restap-gateway has made its tables; run that version".into())
    })?;
    let made = "SELECT EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'restap')";
    let schema = client.query_typed_one(made, &[]).await.map_err(away)?;
    // Asked for only where it is missing: an administrator may have made it for a role that may not.
    if !schema.try_get::<_, bool>(0).map_err(away)? {
        let made = client.batch_execute("CREATE SCHEMA restap").await;
        made.map_err(|error| {
            let why = full(&error);
            Problem::Away(format!(
                "{why}; let the user of store.postgres.url make the schema `restap`, or make it for it"
            ))
        })?;
    }
    for step in steps {
        client.batch_execute(step).await.map_err(away)?;
    }
    put(client, VERSION, MIGRATIONS.len().to_string().as_bytes()).await.map_err(away)
}

async fn rotate(client: &Client, shared: &Shared) -> Result<(), Problem> {
    let away = |error: Error| Problem::Away(full(&error));
    let rows = client.query_typed("SELECT name, value FROM restap.meta", &[]).await.map_err(away)?;
    let wrap = |row: &tokio_postgres::Row| -> Option<Kept> {
        let name: &str = row.try_get(0).ok()?;
        let fingerprint = u128::from_str_radix(name.strip_prefix(WRAP)?, 16).ok()?;
        Some((fingerprint.to_be_bytes(), row.try_get(1).ok()?))
    };
    let kept: Vec<Kept> = rows.iter().filter_map(wrap).collect();
    let rotation = shared.keys.rotate(&kept)?;
    let name = |fingerprint| format!("{WRAP}{:032x}", u128::from_be_bytes(fingerprint));
    for (fingerprint, wrap) in &rotation.put {
        put(client, &name(*fingerprint), wrap).await.map_err(away)?;
    }
    for fingerprint in &rotation.forget {
        let name = name(*fingerprint);
        let forget: [Param<'_>; 1] = [(&name, Type::TEXT)];
        client.query_typed("DELETE FROM restap.meta WHERE name = $1", &forget).await.map_err(away)?;
    }
    shared.keys.unlock(rotation.secret)
}

async fn put(client: &Client, name: &str, value: &[u8]) -> Result<(), Error> {
    let params: [Param<'_>; 2] = [(&name, Type::TEXT), (&value, Type::BYTEA)];
    let statement =
        "INSERT INTO restap.meta(name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
    client.query_typed(statement, &params).await.map(drop)
}

/// Settings under which what was acknowledged can be lost, each as a sentence.
async fn unsafe_settings(client: &Client) -> Result<Vec<String>, Error> {
    let row = client
        .query_typed_one(
            "SELECT current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit')",
            &[],
        )
        .await?;
    let [fsync, pages, commit]: [String; 3] = [row.try_get(0)?, row.try_get(1)?, row.try_get(2)?];
    let mut found = Vec::new();
    if fsync == "off" {
        found.push(
            "PostgreSQL runs with fsync=off: what is acknowledged, and all data, can be lost with its machine".into(),
        );
    }
    if pages == "off" {
        found.push("PostgreSQL runs with full_page_writes=off: a power loss can damage the data".into());
    }
    if commit == "off" {
        found.push(
            "PostgreSQL runs with synchronous_commit=off: what was acknowledged shortly before it dies is lost".into(),
        );
    }
    Ok(found)
}
