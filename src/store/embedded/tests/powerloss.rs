//! Power loss: a child posts while `tests/powerloss/shim.c` writes down all that it does to its files. The record is
//! replayed up to random moments; of what was not synced by then every sector of 512 bytes survives or not. On each
//! such image the store opens and holds what had been acknowledged. A killed process proves nothing of the kind, as
//! the control shows.

use super::*;

const SECTOR: usize = 512;
const IMAGES: usize = 40;

#[tokio::test]
async fn acknowledged_items_survive_a_power_loss() {
    child(80).await;
    let make = |environment| Record::make("acknowledged_items_survive_a_power_loss", environment);
    assert_eq!(images_that_lack_items(&make(None)).await, 0);
    // The control: with `synchronous = NORMAL` the same run loses items.
    let lacking = images_that_lack_items(&make(Some((UNSYNCED, "1")))).await;
    assert!(lacking > IMAGES / 4, "{lacking}");
}

#[tokio::test]
async fn a_disk_that_fails_to_sync_costs_no_acknowledged_item() {
    child(80).await;
    for failing in ["30 1", "30 2", "30 4"] {
        let record = Record::make("a_disk_that_fails_to_sync_costs_no_acknowledged_item", Some(("SHIM_FAIL", failing)));
        let said = String::from_utf8(record.output(record.operations.len())).unwrap();
        let refused = said.lines().filter(|line| line.starts_with("refused")).count();
        let after = said.lines().skip_while(|line| !line.starts_with("refused")).filter_map(stored).count();
        assert!(refused > 0 && after > 100, "it goes on by itself: {refused} {after}");
        let store = serve(&record.data).unwrap();
        assert_eq!(lost(&store, &said).await, 0, "{failing}");
        assert_eq!(images_that_lack_items(&record).await, 0, "{failing}");
    }
}

/// Of the images of a record, those that lack an acknowledged item or can't be opened.
async fn images_that_lack_items(record: &Record) -> usize {
    let first = record.operations.iter().position(|operation| matches!(operation, Operation::Output(_))).unwrap();
    let mut dice = Dice(7);
    let mut moments: Vec<_> = (0..IMAGES).map(|_| first + dice.roll(record.operations.len() - first)).collect();
    moments.sort_unstable();
    let (mut lacking, mut files, mut replayed) = (0, HashMap::new(), 0);
    for moment in moments {
        for operation in &record.operations[replayed..moment] {
            replay(&mut files, operation, &mut dice);
        }
        replayed = moment;
        let image = tempfile::tempdir().unwrap();
        let survival = [0, 50, 90, 100][dice.roll(4)];
        for (path, file) in &files {
            let name = Path::new(path).file_name().unwrap();
            if name != "store.db-shm" {
                fs::write(image.path().join(name), file.after_power_loss(|| dice.roll(100) < survival)).unwrap();
            }
        }
        let said = String::from_utf8(record.output(moment)).unwrap();
        let is_whole = match serve(image.path()) {
            Ok(store) => lost(&store, &said).await == 0 && is_sound(image.path()),
            Err(_) => false,
        };
        lacking += usize::from(!is_whole);
    }
    lacking
}

fn is_sound(path: &Path) -> bool {
    let database = Connection::open(path.join("store.db")).unwrap();
    database.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0)).is_ok_and(|found| found == "ok")
}

/// How many of the items that were said to be stored are not.
async fn lost(store: &Store, said: &str) -> usize {
    let mut lost = 0;
    for which in 0..FEEDS {
        let items = read(store, feed(store, which), Since::Time(1)).await.unwrap_or_default();
        let said = said.lines().filter_map(stored).filter(|(feed, _)| *feed == which);
        lost += said.filter(|(_, item)| !items.contains(item)).count();
    }
    lost
}

/// What a child did, in order.
struct Record {
    operations: Vec<Operation>,
    data: PathBuf,
    _directory: tempfile::TempDir,
}

enum Operation {
    Write(String, usize, Vec<u8>),
    Truncate(String, usize),
    Sync(String),
    Fail(String),
    Unlink(String),
    Rename(String, String),
    Output(Vec<u8>),
}

impl Record {
    /// Runs a test in a child under the shim, until it ends by itself.
    fn make(test: &str, environment: Option<(&str, &str)>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [data, log, shim] = ["data", "log", "shim.so"].map(|name| directory.path().join(name));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/powerloss/shim.c");
        let compiled = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&shim).arg(source).status();
        assert!(compiled.unwrap().success());
        let mut child = in_child(&format!("powerloss::{test}"), &data);
        child.env("LD_PRELOAD", &shim).env("SHIM_DIRECTORY", &data).env("SHIM_LOG", &log).stdout(Stdio::null());
        child.envs(environment).status().unwrap();
        let operations = parse(&fs::read(&log).unwrap());
        Self { operations, data, _directory: directory }
    }

    /// What it had said at a moment.
    fn output(&self, moment: usize) -> Vec<u8> {
        let said = self.operations[..moment].iter().filter_map(|operation| match operation {
            Operation::Output(said) => Some(said.as_slice()),
            _ => None,
        });
        said.collect::<Vec<_>>().concat()
    }
}

fn parse(mut log: &[u8]) -> Vec<Operation> {
    let mut operations = Vec::new();
    while let Some((head, rest)) = log.split_first_chunk::<24>() {
        let number = |at: usize, bytes: usize| {
            head[at..at + bytes].iter().rev().fold(0_usize, |number, byte| number << 8 | usize::from(*byte))
        };
        let (path, rest) = rest.split_at(number(4, 4));
        let (data, rest) = rest.split_at(number(16, 8));
        let (path, offset) = (String::from_utf8(path.to_vec()).unwrap(), number(8, 8));
        operations.push(match head[0] {
            b'W' => Operation::Write(path, offset, data.to_vec()),
            b'T' => Operation::Truncate(path, offset),
            b'S' => Operation::Sync(path),
            b'F' => Operation::Fail(path),
            b'U' => Operation::Unlink(path),
            b'R' => Operation::Rename(path, String::from_utf8(data.to_vec()).unwrap()),
            b'O' => Operation::Output(data.to_vec()),
            other => panic!("{other}"),
        });
        log = rest;
    }
    operations
}

/// A file on a disk with a cache that forgets.
#[derive(Default)]
struct Cached {
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

enum Pending {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

fn replay(files: &mut HashMap<String, Cached>, operation: &Operation, dice: &mut Dice) {
    let mut add = |path: &String, pending| files.entry(path.clone()).or_default().pending.push(pending);
    match operation {
        Operation::Write(path, offset, data) => add(path, Pending::Write(*offset, data.clone())),
        Operation::Truncate(path, length) => add(path, Pending::Truncate(*length)),
        Operation::Sync(path) => {
            if let Some(file) = files.get_mut(path) {
                file.settle(|| true);
            }
        }
        // What the kernel failed to write it takes for written from now on, so no later sync brings it back.
        Operation::Fail(path) => {
            if let Some(file) = files.get_mut(path) {
                file.settle(|| dice.roll(2) == 0);
            }
        }
        Operation::Unlink(path) => drop(files.remove(path)),
        Operation::Rename(from, to) => {
            let file = files.remove(from).unwrap_or_default();
            files.insert(to.clone(), file);
        }
        Operation::Output(_) => {}
    }
}

impl Cached {
    fn settle(&mut self, survives: impl FnMut() -> bool) {
        self.durable = self.after_power_loss(survives);
        self.pending.clear();
    }

    /// What is on the disk if of all that is pending every part survives that `survives` says.
    fn after_power_loss(&self, mut survives: impl FnMut() -> bool) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for pending in &self.pending {
            match pending {
                Pending::Truncate(length) if survives() => bytes.resize(*length, 0),
                Pending::Truncate(_) => {}
                Pending::Write(offset, data) => {
                    let mut at = *offset;
                    while at < offset + data.len() {
                        let end = (at / SECTOR * SECTOR + SECTOR).min(offset + data.len());
                        if survives() {
                            bytes.resize(bytes.len().max(end), 0);
                            bytes[at..end].copy_from_slice(&data[at - offset..end - offset]);
                        }
                        at = end;
                    }
                }
            }
        }
        bytes
    }
}

/// Random numbers that are the same in every run (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides as u64) as usize
    }
}
