//! Handover: open sockets from one process to the one that takes its place, over a socket between the two.
//!
//! Each message is one socket: the address as it is written in the configuration, with the descriptor beside it. An empty
//! address ends them. Afterwards the new process says that it serves, or why it does not.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

use super::settings::Listen;

/// Sockets that are handed over; a file may name as many.
const SOCKETS_MAX: usize = 1_024;

/// Bytes of a message: the path of a unix socket, or a sentence about a failure.
const MESSAGE_MAX: usize = 8 << 10;

/// How long one side waits for the other's next socket.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the new process says once it serves; anything else is why it does not.
const SERVING: &[u8] = b"serving";

/// One end of the way between the two processes.
#[derive(Debug, Clone)]
pub struct Channel(Arc<OwnedFd>);

/// Sockets that another process has opened.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(String, OwnedFd)>,
}

impl Channel {
    /// Both ends of a new one. Neither outlives an exec of this process.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        Ok((Self(Arc::new(own)), other))
    }

    /// The end that stands in place of this process's standard input, as its predecessor has put it there.
    pub fn from_stdin() -> io::Result<Self> {
        let stdin = io::stdin();
        let end = rustix::io::fcntl_dupfd_cloexec(stdin.as_fd(), 3)?;
        // Anything but a socket of this kind is no predecessor.
        match sockopt::socket_type(&end) {
            Ok(SocketType::SEQPACKET) => Ok(Self(Arc::new(end))),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "standard input is no socket of another gateway")),
        }
    }

    /// Hands sockets over; they stay open here too.
    pub fn send(&self, sockets: &[(&Listen, BorrowedFd<'_>)]) -> io::Result<()> {
        sockopt::set_socket_timeout(&self.0, Timeout::Send, Some(PATIENCE))?;
        for (listen, socket) in sockets {
            let descriptors = [*socket];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            beside.push(SendAncillaryMessage::ScmRights(&descriptors));
            let address = listen.to_string();
            sendmsg(&self.0, &[IoSlice::new(address.as_bytes())], &mut beside, SendFlags::NOSIGNAL)?;
        }
        self.say(b"")
    }

    /// Takes what the other side hands over.
    pub fn receive(&self) -> io::Result<Inherited> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(PATIENCE))?;
        let mut sockets = Vec::new();
        while sockets.len() <= SOCKETS_MAX {
            let mut message = [0; MESSAGE_MAX];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let mut parts = [IoSliceMut::new(&mut message)];
            let received = recvmsg(&self.0, &mut parts, &mut beside, RecvFlags::CMSG_CLOEXEC)?;
            let descriptors = beside.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            });
            let descriptor = descriptors.flatten().next();
            match (message.get(..received.bytes), descriptor) {
                (Some(address), Some(descriptor)) => {
                    sockets.push((String::from_utf8_lossy(address).into_owned(), descriptor));
                }
                _ => return Ok(Inherited { sockets }),
            }
        }
        Err(io::Error::new(io::ErrorKind::InvalidData, "more sockets than one gateway has"))
    }

    /// Tells the other side that this one serves.
    pub fn say_serving(&self) -> io::Result<()> {
        self.say(SERVING)
    }

    /// Tells the other side why this one does not serve.
    pub fn say_failed(&self, why: &str) -> io::Result<()> {
        let why = why.get(..why.floor_char_boundary(MESSAGE_MAX)).unwrap_or_default();
        self.say(if why.is_empty() { b"it could not start" } else { why.as_bytes() })
    }

    /// Waits until the other side serves; an error is why it does not.
    pub fn wait(&self, patience: Duration) -> Result<(), String> {
        sockopt::set_socket_timeout(&self.0, Timeout::Recv, Some(patience)).map_err(|error| error.to_string())?;
        let mut message = [0; MESSAGE_MAX];
        let mut receive = || rustix::net::recv(&self.0, &mut message[..], RecvFlags::empty());
        let received = match receive() {
            // It ended before it had taken everything; what it said before that comes after the kernel's own word.
            Err(rustix::io::Errno::CONNRESET) => receive(),
            received => received,
        };
        match received {
            Ok((0, _)) => Err("it has ended; its own messages say why".to_owned()),
            Ok((length, _)) => match message.get(..length) {
                Some(SERVING) => Ok(()),
                said => Err(String::from_utf8_lossy(said.unwrap_or_default()).into_owned()),
            },
            Err(rustix::io::Errno::AGAIN) => Err(format!("it does not serve within {} s", patience.as_secs())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn say(&self, message: &[u8]) -> io::Result<()> {
        let mut nothing = SendAncillaryBuffer::default();
        sendmsg(&self.0, &[IoSlice::new(message)], &mut nothing, SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

impl Inherited {
    /// The socket that listens there, if the other process had one.
    pub(super) fn take(&mut self, listen: &Listen) -> Option<OwnedFd> {
        let address = listen.to_string();
        let position = self.sockets.iter().position(|(known, _)| *known == address)?;
        Some(self.sockets.remove(position).1)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_was_handed_over_accepts_what_waits_at_it() {
        let (one, other) = Channel::pair().unwrap();
        let other = Channel(Arc::new(other));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut caller = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (tcp, unix): (Listen, Listen) = ("127.0.0.1:0".parse().unwrap(), "unix:/a".parse().unwrap());
        one.send(&[(&tcp, listener.as_fd())]).unwrap();
        drop(listener);
        let mut inherited = other.receive().unwrap();
        assert!(inherited.take(&unix).is_none());
        let taken = TcpListener::from(inherited.take(&tcp).unwrap());
        assert!(inherited.take(&tcp).is_none());
        taken.accept().unwrap().0.write_all(b"hello").unwrap();
        let mut said = String::new();
        caller.read_to_string(&mut said).unwrap();
        assert_eq!(said, "hello");
    }

    #[test]
    fn the_new_process_says_that_it_serves_or_why_not() {
        let wait = |say: &dyn Fn(Channel)| {
            let (one, other) = Channel::pair().unwrap();
            say(Channel(Arc::new(other)));
            one.wait(Duration::from_millis(50))
        };
        assert_eq!(wait(&|channel| channel.say_serving().unwrap()), Ok(()));
        assert_eq!(wait(&|channel| channel.say_failed("the disk is full").unwrap()), Err("the disk is full".into()));
        assert_eq!(wait(&|_| {}), Err("it has ended; its own messages say why".into()));
        let (silent, _other) = Channel::pair().unwrap();
        assert_eq!(silent.wait(Duration::from_secs(1)), Err("it does not serve within 1 s".into()));
    }
}
