//! Names and addresses: which of them is connected to, and when a name is looked up again.

use super::*;

/// Gives the addresses that a test puts into it.
struct Names(std::sync::Mutex<Vec<SocketAddr>>);

#[async_trait::async_trait]
impl Resolve for Names {
    async fn resolve(&self, _host: &str, _port: u16) -> std::io::Result<Vec<SocketAddr>> {
        Ok(self.0.lock().unwrap().clone())
    }
}

async fn is_served_by(client: &Client, peer: &Peer, service: &StandIn) {
    let (answer, ()) = tokio::join!(client.send(peer, get("/")), async {
        let mut caller = service.accept().await;
        assert!(caller.request().await.contains("Host: service.test\r\n"));
        caller.send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
    });
    answer.unwrap();
}

#[tokio::test]
async fn an_address_that_is_closed_is_passed_over_for_the_next() {
    let (gone, service) = (StandIn::start().await.address(), StandIn::start().await);
    let names = Arc::new(Names(vec![gone, service.address()].into()));
    let client = Client::with_resolver(Roots::none(), names);
    let peer = client.peer(&settings("http://service.test")).unwrap();
    for _ in 0..4 {
        is_served_by(&client, &peer, &service).await;
    }
}

#[tokio::test]
async fn an_address_that_swallows_everything_costs_its_share_of_the_connect_timer() {
    // A listener whose backlog is full: connecting to it hangs.
    let full = tokio::net::TcpSocket::new_v4().unwrap();
    full.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = full.listen(0).unwrap();
    let address = full.local_addr().unwrap();
    let mut filling = Vec::new();
    while let Ok(stream) = timeout(Duration::from_millis(100), tokio::net::TcpStream::connect(address)).await {
        filling.push(stream.unwrap());
        assert!(filling.len() < 100);
    }
    let service = StandIn::start().await;
    let names = Arc::new(Names(vec![address, service.address()].into()));
    let client = Client::with_resolver(Roots::none(), names);
    let patient = peer::Settings { connect: Duration::from_secs(1), ..settings("http://service.test") };
    let peer = client.peer(&patient).unwrap();
    let start = Instant::now();
    is_served_by(&client, &peer, &service).await;
    assert!((400..900).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    // From now on it is tried last.
    let start = Instant::now();
    is_served_by(&client, &peer, &service).await;
    assert!(start.elapsed() < Duration::from_millis(400));
}

#[tokio::test]
async fn a_service_that_moved_is_found_again() {
    let (before, after) = (StandIn::start().await, StandIn::start().await);
    let names = Arc::new(Names(vec![before.address()].into()));
    let client = Client::with_resolver(Roots::none(), Arc::clone(&names) as Arc<dyn Resolve>);
    let peer = client.peer(&settings("http://service.test")).unwrap();
    is_served_by(&client, &peer, &before).await;
    drop(before);
    *names.0.lock().unwrap() = vec![after.address()];
    assert!(client.send(&peer, get("/")).await.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    is_served_by(&client, &peer, &after).await;
}

#[tokio::test]
async fn a_name_server_that_is_silent_meets_the_connect_timer() {
    struct Silent;
    #[async_trait::async_trait]
    impl Resolve for Silent {
        async fn resolve(&self, _host: &str, _port: u16) -> std::io::Result<Vec<SocketAddr>> {
            std::future::pending().await
        }
    }
    let client = Client::with_resolver(Roots::none(), Arc::new(Silent));
    let hurried = peer::Settings { connect: Duration::from_millis(50), ..settings("http://service.test") };
    let peer = client.peer(&hurried).unwrap();
    let error = client.send(&peer, get("/")).await.err().unwrap();
    assert_eq!(error.to_string(), "`service.test` can't be resolved: no answer in time");
    assert!(error.is_unsent());
    assert!(peer.http_peer().await.is_err());
}
