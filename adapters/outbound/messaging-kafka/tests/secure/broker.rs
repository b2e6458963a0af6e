//! The one broker of this binary: TLS, SCRAM users and access rules on every listener but the
//! plain one, which is the tests' own.
//!
//! Invariant: the broker ends with the process, whose pipe it holds; each listener has a
//! certificate of its own, and whoever connects to it knows only the one authority.

use crate::authority::{Authority, Validity};
use crate::proxy::Proxy;
use crate::topic::environment;
use crate::{log, rights};
use domain_core::instant::DatabaseInstant;
use outbound_messaging_kafka::{PinnedAuthorities, ScramCredentials, SecurityProfile};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, AlterConfig, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use secrecy::SecretString;
use std::fmt::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A listener, by what is the matter with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// Nothing.
    Trusted,
    /// Its certificate is signed by nobody that counts.
    Untrusted,
    /// Its certificate names another host.
    WrongHost,
    /// Its certificate is over.
    Expired,
    /// Its certificate is to come.
    NotYet,
    /// Its certificate changes, and connections can be cut.
    Renewed,
    /// Connections can be cut.
    Cut,
}

impl Door {
    const ALL: [Self; 7] = [
        Self::Trusted,
        Self::Untrusted,
        Self::WrongHost,
        Self::Expired,
        Self::NotYet,
        Self::Renewed,
        Self::Cut,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_uppercase()
    }
}

/// Users of the broker; the name is the key of the password.
pub(crate) const USERS: [(&str, &str); 4] = [
    ("publisher-4af1", "pa55-of-the-publisher-c0de"),
    ("least-4af1", "pa55-of-the-least-c0de"),
    ("revoked-4af1", "pa55-of-the-revoked-c0de"),
    ("changing-4af1", "pa55-of-the-changing-c0de"),
];

pub(crate) struct Broker {
    /// The plain listener, where nobody is asked who they are.
    pub(crate) plain: SocketAddr,
    authority: Authority,
    doors: Vec<(Door, String, Option<Proxy>)>,
    folder: PathBuf,
    // What accepts connections for it, and what ends it.
    _proxies: tokio::runtime::Runtime,
    _guard: Child,
}

static BROKER: LazyLock<Broker> = LazyLock::new(|| {
    log::capture();
    // A thread of its own, since the cases run inside a runtime already.
    let starting = std::thread::spawn(Broker::start);
    starting.join().expect("the broker starts")
});

fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("bind"));
    listeners.map(|listener| listener.local_addr().expect("address").port())
}

impl Broker {
    /// The broker, started by whoever asks first.
    pub(crate) fn shared() -> &'static Self {
        &BROKER
    }

    fn start() -> Self {
        let folder = tempfile::tempdir().expect("folder").keep();
        let [controller, plain, ports @ ..] = free_ports::<{ 2 + Door::ALL.len() }>();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        let authority = Authority::create("the authority");
        let stranger = Authority::create("a stranger");
        let mut properties = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAIN\n\
             log.dirs={}\nauto.create.topics.enable=false\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             sasl.enabled.mechanisms=SCRAM-SHA-512\n\
             authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:ANONYMOUS\nallow.everyone.if.no.acl.found=false\n",
            folder.join("data").display()
        );
        let mut listeners =
            format!("CONTROLLER://127.0.0.1:{controller},PLAIN://127.0.0.1:{plain}");
        let mut advertised = format!("PLAIN://127.0.0.1:{plain}");
        let mut protocols = "CONTROLLER:PLAINTEXT,PLAIN:PLAINTEXT".to_owned();
        let mut doors = Vec::new();
        for (door, port) in Door::ALL.into_iter().zip(ports) {
            let (signer, host, validity) = match door {
                Door::Trusted | Door::Renewed | Door::Cut => {
                    (&authority, "localhost", Validity::Now)
                }
                Door::Untrusted => (&stranger, "localhost", Validity::Now),
                Door::WrongHost => (&authority, "broker.example", Validity::Now),
                Door::Expired => (&authority, "localhost", Validity::Over),
                Door::NotYet => (&authority, "localhost", Validity::ToCome),
            };
            let name = door.name();
            let file = folder.join(format!("{name}.pem"));
            std::fs::write(&file, signer.broker(host, validity)).expect("key store");
            let listen = SocketAddr::from(([127, 0, 0, 1], port));
            let proxy = matches!(door, Door::Renewed | Door::Cut)
                .then(|| runtime.block_on(Proxy::start(listen)));
            let address = match &proxy {
                Some(proxy) => proxy.address.to_string(),
                None if door == Door::Trusted => format!("localhost:{port}"),
                None => listen.to_string(),
            };
            let prefix = format!("listener.name.{}", name.to_lowercase());
            // Writing into a String does not fail.
            let _ = write!(listeners, ",{name}://{listen}");
            let _ = write!(advertised, ",{name}://{address}");
            let _ = write!(protocols, ",{name}:SASL_SSL");
            let _ = write!(
                properties,
                "{prefix}.ssl.keystore.type=PEM\n{prefix}.ssl.keystore.location={}\n\
                 {prefix}.scram-sha-512.sasl.jaas.config=\
                 org.apache.kafka.common.security.scram.ScramLoginModule required;\n",
                file.display()
            );
            doors.push((door, address, proxy));
        }
        let _ = write!(
            properties,
            "listeners={listeners}\nadvertised.listeners={advertised}\n\
             listener.security.protocol.map={protocols}\n"
        );
        let file = folder.join("server.properties");
        std::fs::write(&file, properties).expect("properties");
        let file = file.to_str().expect("UTF-8 path");
        let mut format = vec!["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", file];
        let users = USERS
            .map(|(name, password)| format!("SCRAM-SHA-512=[name={name},password={password}]"));
        for user in &users {
            format.extend(["--add-scram", user]);
        }
        tool("kafka.tools.StorageTool", &format);
        let this = Self {
            plain: SocketAddr::from(([127, 0, 0, 1], plain)),
            authority,
            doors,
            _guard: run(file, &folder),
            folder,
            _proxies: runtime,
        };
        this.answers();
        this
    }

    /// Where a listener is reached.
    pub(crate) fn address(&self, door: Door) -> &str {
        &self.door(door).1
    }

    /// What stands before a listener whose connections can be cut.
    pub(crate) fn proxy(&self, door: Door) -> &Proxy {
        self.door(door).2.as_ref().expect("one with a proxy")
    }

    fn door(&self, wanted: Door) -> &(Door, String, Option<Proxy>) {
        let found = self.doors.iter().find(|(door, ..)| *door == wanted);
        found.expect("every door is there")
    }

    /// How a user speaks to the broker.
    pub(crate) fn security(&self, user: &str) -> SecurityProfile {
        self.security_with(user, password(user))
    }

    /// The same with another password.
    pub(crate) fn security_with(&self, user: &str, password: &str) -> SecurityProfile {
        let authorities = PinnedAuthorities::parse(&self.authority_pem().into(), now());
        let credentials = ScramCredentials::new(
            SecretString::from(user),
            SecretString::from(password),
            authorities.expect("a valid authority"),
        );
        SecurityProfile::SaslSslScramSha512(credentials.expect("valid"))
    }

    /// What every client here trusts.
    pub(crate) fn authority_pem(&self) -> &str {
        &self.authority.pem
    }

    /// A client that is not ours, as this user.
    pub(crate) fn client(&self, user: &str) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.address(Door::Trusted))
            .set("security.protocol", "sasl_ssl")
            .set("ssl.ca.pem", self.authority_pem())
            .set("sasl.mechanism", "SCRAM-SHA-512")
            .set("sasl.username", user)
            .set("sasl.password", password(user));
        config
    }

    /// Lets a user do all that a producer needs with exactly one topic.
    pub(crate) fn grant(&self, user: &str, topic: &str) {
        rights::grant(self.plain, user, topic, &rights::PRODUCER);
    }

    /// Gives [`Door::Renewed`] another certificate, which new connections meet.
    pub(crate) async fn renew(&self, name: &str, validity: Validity) {
        let file = self.folder.join(format!("{name}.pem"));
        let store = self.authority.broker("localhost", validity);
        std::fs::write(&file, store).expect("key store");
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.plain.to_string())
            .create()
            .expect("admin client");
        let change = AlterConfig::new(ResourceSpecifier::Broker(1))
            .set("listener.name.renewed.ssl.keystore.type", "PEM")
            .set(
                "listener.name.renewed.ssl.keystore.location",
                file.to_str().expect("UTF-8 path"),
            );
        let results = admin
            .alter_configs(&[change], &AdminOptions::new())
            .await
            .expect("alter configs");
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    /// Gives a user another password.
    pub(crate) async fn set_password(&self, user: &str, password: &str) {
        let plain = self.plain.to_string();
        let scram = format!("SCRAM-SHA-512=[password={password}]");
        let user = user.to_owned();
        let change = move || {
            tool(
                "kafka.admin.ConfigCommand",
                &[
                    "--bootstrap-server",
                    &plain,
                    "--alter",
                    "--add-config",
                    &scram,
                    "--entity-type",
                    "users",
                    "--entity-name",
                    &user,
                ],
            );
        };
        tokio::task::spawn_blocking(change).await.expect("a change");
    }

    fn answers(&self) {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.plain.to_string())
            .create()
            .expect("client");
        let until = Instant::now() + Duration::from_secs(90);
        while Instant::now() < until {
            if let Ok(metadata) = consumer.fetch_metadata(None, Duration::from_secs(5))
                && !metadata.brokers().is_empty()
            {
                return;
            }
        }
        let log = std::fs::read_to_string(self.folder.join("broker.log")).unwrap_or_default();
        panic!("the broker never answered: {log}");
    }
}

pub(crate) fn password(user: &str) -> &'static str {
    let found = USERS.iter().find(|(name, _)| *name == user);
    found.expect("a user of the broker").1
}

/// This machine's time.
pub(crate) fn now() -> DatabaseInstant {
    let since = std::time::UNIX_EPOCH.elapsed().expect("after 1970");
    let micros = i64::try_from(since.as_micros()).expect("a time of this age");
    DatabaseInstant::from_epoch_micros(micros)
}

fn java(words: &[&str]) -> Vec<String> {
    let classpath = environment("COUNTERSIGN_TEST_KAFKA_CLASSPATH");
    // Short lives: the compiler that starts fastest.
    let options = [
        "java",
        "-Xmx300m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        &classpath,
    ];
    let all = options.iter().chain(words);
    all.map(|word| (*word).to_owned()).collect()
}

/// Runs one of Kafka's tools to its end.
fn tool(class: &str, arguments: &[&str]) {
    let words = java(&[&[class], arguments].concat());
    let output = Command::new(&words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .output()
        .expect("java");
    assert!(
        output.status.success(),
        "{class}: {}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

fn run(file: &str, folder: &std::path::Path) -> Child {
    let words = java(&["kafka.Kafka", file]);
    let log = std::fs::File::create(folder.join("broker.log")).expect("log");
    // The shell reads a pipe that nobody writes: its end is the end of this process.
    Command::new("/bin/sh")
        .arg("-c")
        .arg(
            "folder=$1; shift; \"$@\" </dev/null & broker=$!; read -r _; kill -9 $broker; \
             wait $broker; rm -r \"$folder\"",
        )
        .arg("broker")
        .arg(folder)
        .args(&words)
        .stdin(Stdio::piped())
        .stdout(log.try_clone().expect("log"))
        .stderr(log)
        .spawn()
        .expect("broker")
}
