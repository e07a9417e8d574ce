//! Disks that are full, read-only or damaged: what callers and operators see, and that it ends by itself.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;

use crate::support::gateway::PROGRAM;
use crate::support::{Call, Gateway, Response, run, until};

/// A file system of some megabytes, which ends with this value.
struct Disk(PathBuf);

impl Disk {
    /// `None` where this may not be done.
    fn mount(at: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir(at).unwrap();
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m"), "tmpfs"]).arg(at).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(at.to_owned()));
        }
        eprintln!("skipped: a file system can be mounted by root alone");
        None
    }

    fn remount(&self, option: &str) {
        let option = format!("remount,{option}");
        assert!(Command::new("mount").args(["-o", &option]).arg(&self.0).status().unwrap().success());
    }

    /// Takes all the room that is left.
    fn fill(&self) {
        let mut filler = File::create(self.0.join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

const FILE: &str = "store: {embedded: {path: data}}\nagent: {name: News}\n";

fn post(gateway: &Gateway, message: &str) -> Response {
    gateway.post("/news", &json!({"type": "n", "message": message}))
}

fn count(gateway: &Gateway) -> usize {
    gateway.call(&Call::get("/news?limit=1000")).ok()["items"].as_array().unwrap().len()
}

#[test]
fn a_full_disk_is_503_for_writers_while_reads_go_on_and_ends_when_there_is_room() {
    let directory = Arc::new(TempDir::new().unwrap());
    let Some(disk) = Disk::mount(&directory.path().join("data"), 40) else { return };
    let gateway = Gateway::start_in(directory.clone(), FILE);
    let mut stored = 0;
    disk.fill();
    let refused = until("the disk is full", || {
        let answer = post(&gateway, &"x".repeat(20_000));
        stored += usize::from(answer.status == 200);
        Some(answer).filter(|answer| answer.status != 200)
    });
    refused.refused(503, "store_unavailable");
    assert!(refused.header("retry-after").is_some());
    assert_eq!(count(&gateway), stored, "what was acknowledged is read");
    until("not ready", || Some(gateway.admin("/ready")).filter(|(status, _)| *status == 503));
    let line = gateway.wait_for_line("the disk is full; free some space");
    assert!(line.contains("the store can't be"), "{line}");
    let metrics = gateway.admin("/metrics").1;
    for state in [r#"state="readable"} 1"#, r#"state="writable"} 0"#] {
        assert!(metrics.contains(&format!("restap_store_state{{engine=\"embedded\",{state}")), "{metrics}");
    }
    disk.empty();
    until("written again", || Some(()).filter(|()| post(&gateway, "after").status == 200));
    until("ready again", || Some(()).filter(|()| gateway.admin("/ready").0 == 200));
    assert_eq!(count(&gateway), stored + 1);
}

#[test]
fn a_disk_that_can_not_be_written_is_told_at_the_start() {
    let directory = TempDir::new().unwrap();
    let Some(disk) = Disk::mount(&directory.path().join("data"), 40) else { return };
    disk.remount("ro");
    let file = format!("admin: off\nlisten: 127.0.0.1:0\n{FILE}");
    let finished = run(directory.path(), Some(&file), &["serve"]);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("mount it writable"), "{finished:?}");
    disk.remount("rw");
    drop(Gateway::start_in(Arc::new(directory), FILE));
}

#[test]
fn a_store_that_is_damaged_or_another_program_s_is_told_at_the_start_and_left_as_it_is() {
    let mut gateway = Gateway::start(FILE);
    let directory = gateway.directory();
    post(&gateway, "kept").ok();
    gateway.stop();
    let path = directory.path().join("data/store.db");
    let file = format!("admin: off\nlisten: 127.0.0.1:0\n{FILE}");
    for damage in [&b"no database, but more than a hundred bytes of something else"[..], &[0xff; 9000]] {
        fs::write(&path, damage).unwrap();
        let finished = run(directory.path(), Some(&file), &["serve"]);
        assert_eq!(finished.code, Some(1), "{finished:?}");
        assert!(finished.stderr.contains("store.db can't be used: "), "{finished:?}");
        assert!(!finished.stderr.contains("panicked"), "{finished:?}");
        assert_eq!(fs::read(&path).unwrap(), damage, "nothing is written over");
    }
}

#[test]
fn an_item_that_is_damaged_is_503_and_the_others_are_read() {
    let gateway = Gateway::start(FILE);
    let directory = gateway.directory();
    let text = "a text that stands in the file ".repeat(40);
    post(&gateway, &text).ok();
    let session = "sess_of_another_feed";
    gateway.call(&Call::post("/news", &json!({"type": "n", "message": "whole"})).session(session)).ok();
    let sql = "UPDATE item SET json = CAST(replace(json, 'stands', 'stood!') AS BLOB) WHERE json LIKE '%stands%'";
    let database = rusqlite::Connection::open(directory.path().join("data/store.db")).unwrap();
    database.execute(sql, []).unwrap();
    let answer = gateway.get("/news");
    assert_eq!(answer.refused(503, "store_unavailable")["items"], json!([]));
    assert!(!answer.text().contains("stood!"));
    gateway.call(&Call::get("/news").session(session)).ok();
    post(&gateway, "new").ok();
    let checked = Command::new(PROGRAM).args(["store", "check"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
}
