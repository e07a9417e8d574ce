//! Who is measured: the gateway, a bare Pingora proxy, and nginx where it is installed. Each is a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use pingora::prelude::{HttpPeer, Opt, ProxyHttp, Server, Session, http_proxy_service};
use pingora::server::configuration::ServerConf;

/// What an order must be.
const ORDER: &str = r#"{type: object, required: [id, customer, items], additionalProperties: false, properties: {
  id: {type: string, minLength: 1}, express: {type: boolean},
  customer: {type: object, required: [name, email], properties: {name: {type: string}, email: {type: string, maxLength: 200}}},
  items: {type: array, minItems: 1, maxItems: 100, items: {type: object, required: [sku, count, price], properties: {
    sku: {type: string, pattern: "^[A-Z]-[0-9]{4}$"}, name: {type: string}, count: {type: integer, minimum: 1},
    price: {type: number, exclusiveMinimum: 0}, tags: {type: array, items: {type: string}}}}}}}"#;

/// What becomes of an order that is mapped.
const MAPPING: &str = "{id, customer: .customer.name, total: ([.items[] | .count * .price] | add), \
                       lines: [.items[] | {sku, count}]}";

/// A process that answers at an address. It ends with this value.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) is_gateway: bool,
    process: Child,
    _folder: tempfile::TempDir,
}

impl Contestant {
    pub(crate) fn gateway(upstream: SocketAddr) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let order = ORDER.replace('\n', " ");
        let text = format!(
            "listen: 127.0.0.1:0\nadmin: off\nlog: {{access: false, level: error}}\n\
             agents:\n  bench:\n    base_path: /\n    upstream: http://{upstream}\n    \
             talk: {{upstream: http://{upstream}, dialect: openai-chat, model: bench}}\n    \
             capabilities:\n    \
             - {{id: weather, endpoint: '/weather/{{city}}'}}\n    \
             - {{id: kept, endpoint: '/kept/{{city}}', route: {{cache: 1h, path: '/weather/{{city}}'}}}}\n    \
             - {{id: orders, method: POST, endpoint: /orders}}\n    \
             - {{id: checked, method: POST, endpoint: /checked, route: {{path: /orders}}, input_schema: {order}}}\n    \
             - {{id: mapped, method: POST, endpoint: /mapped, route: {{path: /orders, transform: {{response: '{MAPPING}'}}}}, \
             input_schema: {order}}}\n  \
             forgetful:\n    base_path: /forgetful\n    talk: {{upstream: http://{upstream}, dialect: openai-chat, \
             model: bench, history: {{turns: 0}}, news: {{items: 0}}}}\n"
        );
        fs::write(&file, text).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_restap-gateway"))
            .args(["serve", "-c"])
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stderr.take().unwrap());
        while !line.contains("serving on http://") {
            line.clear();
            assert!(said.read_line(&mut line).unwrap() > 0, "the gateway did not start");
        }
        let address = line.trim().rsplit_once("http://").unwrap().1.parse().unwrap();
        std::thread::spawn(move || said.lines().map_while(Result::ok).for_each(|line| eprintln_once(&line)));
        Self { name: "gateway", address, is_gateway: true, process, _folder: folder }
    }

    pub(crate) fn pingora(upstream: SocketAddr) -> Self {
        let address = free_address();
        let own = std::env::current_exe().unwrap();
        let arguments = ["bare-pingora".to_owned(), address.to_string(), upstream.to_string()];
        let process = Command::new(own).args(arguments).spawn().unwrap();
        Self::wait("pingora", address, process, tempfile::tempdir().unwrap())
    }

    pub(crate) fn nginx(upstream: SocketAddr) -> Option<Self> {
        let address = free_address();
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().display();
        let text = format!(
            "worker_processes auto;\ndaemon off;\npid {at}/pid;\nerror_log {at}/error.log;\nevents {{}}\nhttp {{\n\
             access_log off;\nclient_body_temp_path {at}/body;\nproxy_temp_path {at}/proxy;\nfastcgi_temp_path {at}/f;\n\
             uwsgi_temp_path {at}/u;\nscgi_temp_path {at}/s;\nupstream up {{ server {upstream}; keepalive 64; }}\n\
             server {{ listen {address}; keepalive_requests 1000000; location / {{ proxy_pass http://up; proxy_http_version 1.1;\n\
             proxy_set_header Connection \"\"; proxy_buffering off; }} }} }}\n"
        );
        let file = folder.path().join("nginx.conf");
        fs::write(&file, text).unwrap();
        let process = Command::new("nginx").arg("-c").arg(&file).stderr(Stdio::null()).spawn().ok()?;
        Some(Self::wait("nginx", address, process, folder))
    }

    fn wait(name: &'static str, address: SocketAddr, process: Child, folder: tempfile::TempDir) -> Self {
        let deadline = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < deadline, "{name} did not start");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { name, address, is_gateway: false, process, _folder: folder }
    }

    /// CPU time of the process and its children, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let own = cpu_of(self.process.id());
        own + children(self.process.id()).into_iter().map(cpu_of).sum::<f64>()
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        // The parent first: nginx starts another worker in place of one that has ended.
        let children = children(self.process.id());
        let _ = self.process.kill();
        let _ = self.process.wait();
        for child in children {
            let _ = Command::new("kill").arg(child.to_string()).status();
        }
    }
}

/// User and system time from /proc; a tick is 10 ms on every Linux that matters here.
fn cpu_of(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn children(pid: u32) -> Vec<u32> {
    let listed = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    listed.split_whitespace().filter_map(|child| child.parse().ok()).collect()
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

fn eprintln_once(line: &str) {
    println!("  gateway: {line}");
}

/// Nothing but Pingora: every request goes to one upstream.
struct Bare(SocketAddr);

#[async_trait]
impl ProxyHttp for Bare {
    type CTX = ();

    fn new_ctx(&self) {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> pingora::Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.0, false, String::new())))
    }
}

pub(crate) fn bare_pingora(listen: &str, upstream: &str) {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let conf = ServerConf { threads, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(Opt::default(), conf);
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Bare(upstream.parse().unwrap()));
    service.add_tcp(listen);
    server.add_service(service);
    server.run_forever();
}
