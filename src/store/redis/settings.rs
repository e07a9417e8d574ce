//! What the server is: its version and role, the key that the store was made with, the settings that break its promise.

use std::collections::HashMap;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script, cmd};

use super::Shared;
use super::line::away;
use super::scripts::hex;
use crate::store::shared::{Kept, Problem};

/// The version of what is kept, as `redis/common.lua` lists it.
const VERSION: u32 = 1;

const META: &str = "{restap}:m";
const WRAP: &str = "wrap:";

/// Writes what the store is, unless another gateway has done so since it was read. ARGV: what was read of the wraps, the
/// version, the number of wraps to keep, each with its name, and the names of those to forget.
const TURN: &str = "
if redis.call('HGET', KEYS[1], 'turn') ~= (ARGV[1] ~= '' and ARGV[1]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'turn', 1)
redis.call('HSET', KEYS[1], 'version', ARGV[2])
local puts = tonumber(ARGV[3])
for at = 4, 3 + 2 * puts, 2 do redis.call('HSET', KEYS[1], ARGV[at], ARGV[at + 1]) end
for at = 4 + 2 * puts, #ARGV do redis.call('HDEL', KEYS[1], ARGV[at]) end
return 1
";

/// How often that is tried while others do the same.
const TURNS: usize = 20;

/// Judges a server that was just connected to.
pub(super) async fn admit(connection: &mut MultiplexedConnection, shared: &Shared) -> Result<(), Problem> {
    let info = info(connection).await.map_err(|error| away(&error))?;
    let fact = |name: &str| info.get(name).map_or("", String::as_str);
    if fact("role") == "slave" {
        return Err(Problem::Away("it is a replica; store.redis.url must name the primary".into()));
    }
    if version(fact("redis_version")) < (6, 2) {
        let version = fact("redis_version");
        return Err(Problem::Refused(format!("it is Redis {version}; 6.2 is the oldest that will do")));
    }
    if fact("loading") == "1" {
        return Err(Problem::Away("it is loading its data".into()));
    }
    rotate(connection, shared).await?;
    shared.status.warn(unsafe_settings(connection, &info).await);
    Ok(())
}

async fn info(connection: &mut MultiplexedConnection) -> RedisResult<HashMap<String, String>> {
    let text: String = cmd("INFO").query_async(connection).await?;
    let fact = |line: &str| line.trim_end().split_once(':').map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(text.lines().filter_map(fact).collect())
}

/// Major and minor.
fn version(text: &str) -> (u32, u32) {
    let mut numbers = text.split('.').map(|number| number.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

async fn rotate(connection: &mut MultiplexedConnection, shared: &Shared) -> Result<(), Problem> {
    for _ in 0..TURNS {
        let asked: RedisResult<HashMap<String, Vec<u8>>> = cmd("HGETALL").arg(META).query_async(connection).await;
        let meta = asked.map_err(|error| away(&error))?;
        let number = |name: &str| meta.get(name).and_then(|value| String::from_utf8(value.clone()).ok());
        if number("version").is_some_and(|version| version != VERSION.to_string()) {
            let newer = "another version of restap-gateway has made its keys; run that version";
            return Err(Problem::Refused(newer.into()));
        }
        let wrap = |(name, wrap): (&String, &Vec<u8>)| -> Option<Kept> {
            let fingerprint = u128::from_str_radix(name.strip_prefix(WRAP)?, 16).ok()?;
            Some((fingerprint.to_be_bytes(), wrap.clone()))
        };
        let kept: Vec<Kept> = meta.iter().filter_map(wrap).collect();
        let rotation = shared.keys.rotate(&kept)?;
        if !rotation.put.is_empty() || !rotation.forget.is_empty() {
            let script = Script::new(TURN);
            let mut turn = script.key(META);
            turn.arg(number("turn").unwrap_or_default()).arg(VERSION).arg(rotation.put.len());
            for (fingerprint, wrap) in &rotation.put {
                turn.arg(format!("{WRAP}{}", hex(*fingerprint))).arg(wrap.as_slice());
            }
            for fingerprint in &rotation.forget {
                turn.arg(format!("{WRAP}{}", hex(*fingerprint)));
            }
            let turned: RedisResult<u8> = turn.invoke_async(connection).await;
            if turned.map_err(|error| away(&error))? == 0 {
                continue;
            }
        }
        return shared.keys.unlock(rotation.secret);
    }
    Err(Problem::Away("other gateways start at the same time".into()))
}

/// Settings under which what was acknowledged can be lost, each as a sentence.
async fn unsafe_settings(connection: &mut MultiplexedConnection, info: &HashMap<String, String>) -> Vec<String> {
    let mut found = Vec::new();
    let fact = |name: &str| info.get(name).map_or("", String::as_str);
    if fact("aof_enabled") == "0" {
        found.push(
            "Redis runs with appendonly=no: what is acknowledged is lost when it ends; set appendonly yes".into(),
        );
    } else {
        let asked: RedisResult<Vec<String>> = cmd("CONFIG").arg("GET").arg("appendfsync").query_async(connection).await;
        match asked.ok().and_then(|pair| pair.into_iter().nth(1)).as_deref() {
            Some("always") => {}
            Some(when) => found.push(format!(
                "Redis runs with appendfsync={when}: what was acknowledged shortly before it dies is lost; set appendfsync \
                 always"
            )),
            None => found.push(
                "Redis does not say what appendfsync is: unless it is `always`, what was acknowledged shortly before it \
                 dies is lost"
                    .into(),
            ),
        }
    }
    let policy = fact("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        found.push(format!(
            "Redis runs with maxmemory-policy={policy}: it throws data away when its memory is used up; set noeviction"
        ));
    }
    found
}
