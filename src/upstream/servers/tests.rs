use super::*;
use crate::net::stand_in::client;
use crate::net::{HttpVersion, peer, tls};

fn servers(balance: Balance, weights: &[u32]) -> Arc<Servers> {
    let server = |(number, weight): (usize, &u32)| {
        let url: crate::net::Url = format!("http://127.0.0.1:{}", number + 1).parse().unwrap();
        let settings = peer::Settings {
            origin: url.origin.clone(),
            tls: tls::Settings::default(),
            version: HttpVersion::Auto,
            connect: Duration::from_secs(1),
            write: Duration::from_secs(1),
            read: Duration::from_secs(1),
        };
        Server::new("api", url, *weight, client().peer(&settings).unwrap(), None)
    };
    Arc::new(Servers::new("api", weights.iter().enumerate().map(server).collect(), balance, None))
}

/// Who gets the next requests, each of which ends before the next comes.
fn shares(servers: &Arc<Servers>, requests: usize) -> Vec<usize> {
    let mut shares = vec![0; servers.len()];
    for _ in 0..requests {
        shares[servers.pick(None, &[]).unwrap().index()] += 1;
    }
    shares
}

fn fail(servers: &Arc<Servers>, index: usize, times: usize) {
    let server = servers.iter().nth(index).unwrap().clone();
    (0..times).for_each(|_| servers.record(&server, false));
}

#[tokio::test]
async fn turns_are_taken_by_weight_and_spread_evenly() {
    let servers = servers(Balance::RoundRobin, &[3, 1]);
    assert_eq!(shares(&servers, 400), [300, 100]);
    let four: Vec<usize> = (0..4).map(|_| servers.pick(None, &[]).unwrap().index()).collect();
    assert_eq!(four.iter().filter(|index| **index == 1).count(), 1, "{four:?}");
}

#[tokio::test]
async fn the_fewest_requests_for_its_weight_are_next() {
    let servers = servers(Balance::LeastConn, &[2, 1]);
    let held: Vec<_> = (0..9).map(|_| servers.pick(None, &[]).unwrap()).collect();
    let second = held.iter().filter(|picked| picked.index() == 1).count();
    assert_eq!(second, 3);
}

#[tokio::test]
async fn a_session_stays_at_its_server_and_moves_only_when_that_is_gone() {
    let servers = servers(Balance::Consistent, &[1, 1, 1, 1]);
    let at = |key: u32| servers.pick(Some(Affinity::of(&key.to_be_bytes())), &[]).unwrap().index();
    let before: Vec<usize> = (0..1_000).map(at).collect();
    assert_eq!(before, (0..1_000).map(at).collect::<Vec<_>>());
    for index in 0..4 {
        let share = before.iter().filter(|at| **at == index).count();
        assert!((180..320).contains(&share), "{share}");
    }
    fail(&servers, 2, 5);
    for (key, was) in (0..1_000).zip(before) {
        let now = at(key);
        assert!(now != 2 && (was == 2 || now == was), "{key}: {was} {now}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_fails_is_left_out_and_tried_by_one_request_when_its_time_is_over() {
    let servers = servers(Balance::RoundRobin, &[1, 1]);
    fail(&servers, 0, 4);
    assert_eq!(shares(&servers, 10), [5, 5]);
    fail(&servers, 0, 1);
    assert_eq!(shares(&servers, 10), [0, 10]);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let held: Vec<_> = (0..10).map(|_| servers.pick(None, &[]).unwrap()).collect();
    assert_eq!(held.iter().filter(|picked| picked.index() == 0).count(), 1);
    held.iter().find(|picked| picked.index() == 0).unwrap().record(true);
    drop(held);
    // It is back, with a part of its share that grows.
    let [first, _] = shares(&servers, 110)[..] else { panic!() };
    assert!((8..=12).contains(&first), "{first}");
    tokio::time::sleep(Duration::from_secs(11)).await;
    let [first, second] = shares(&servers, 100)[..] else { panic!() };
    assert!(first.abs_diff(second) <= 2, "{first} {second}");
}

#[tokio::test(start_paused = true)]
async fn the_last_server_is_never_left_out() {
    let servers = servers(Balance::RoundRobin, &[1, 1]);
    fail(&servers, 0, 6);
    fail(&servers, 1, 6);
    assert_eq!(shares(&servers, 4), [0, 4]);
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_its_checks_is_not_asked_and_all_of_them_are_unavailable() {
    let servers = servers(Balance::RoundRobin, &[1, 1]);
    let check = |index: usize, well: bool| servers.iter().nth(index).unwrap().checked(well);
    check(0, true);
    check(1, true);
    check(0, false);
    assert_eq!(shares(&servers, 4), [2, 2]);
    check(0, false);
    assert_eq!(shares(&servers, 4), [0, 4]);
    check(1, false);
    check(1, false);
    assert!(servers.pick(None, &[]).is_err());
    check(0, true);
    check(0, true);
    assert_eq!(shares(&servers, 4), [4, 0]);
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_lets_one_request_through_at_a_time_and_waits_longer_each_time() {
    let servers = servers(Balance::RoundRobin, &[1]);
    fail(&servers, 0, 20);
    let wait = servers.pick(None, &[]).err().unwrap().retry_after;
    assert_eq!(wait, Duration::from_secs(1));
    tokio::time::sleep(wait).await;
    let trial = servers.pick(None, &[]).unwrap();
    assert!(servers.pick(None, &[]).is_err());
    trial.record(false);
    drop(trial);
    let wait = servers.pick(None, &[]).err().unwrap().retry_after;
    assert_eq!(wait, Duration::from_secs(2));
    tokio::time::sleep(wait).await;
    // A trial whose caller left says nothing, and the next one may try.
    drop(servers.pick(None, &[]).unwrap());
    servers.pick(None, &[]).unwrap().record(true);
    assert_eq!(shares(&servers, 4), [4]);
}
