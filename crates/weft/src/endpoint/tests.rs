//! An endpoint on the loopback device: matching and operations, without a medium in between.

use weft_wire::{Address, PeerId};

use super::*;
use crate::device::Device;
use crate::group::{Group, GroupOptions};
use crate::loopback::Loopback;

fn endpoint() -> Endpoint {
    Endpoint::new(context()).unwrap()
}

fn context() -> Context {
    let me = Address::new(1, 2, 3, 4, "here");
    let mut device = Loopback::new(me);
    device.associate(PeerId(0), &me).unwrap();
    let place = Place { rank: PeerId(0), size: 1, on_node: 1 };
    Context::on_device(Box::new(device), place, 0).unwrap()
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn messages_of_any_size_arrive_whether_expected_or_not() {
    let ep = endpoint();
    for len in [0, 1, 31, 4096, 16 << 10, (16 << 10) + 1, 3 << 20] {
        let bytes = pattern(len);
        let sent = ep.isend(0, 5, bytes.clone()).unwrap();
        let mut into = vec![0; len];
        let status = ep.recv(0, 5, &mut into).unwrap();
        assert_eq!((status.len, status.tag(), status.source), (len, 5, 0));
        assert!(into == bytes, "{len} bytes, unexpected");
        assert_eq!(ep.wait(sent).unwrap().buffer.len(), len);

        let received = ep.irecv(Source::Any, Tag::ANY, vec![0; len]);
        ep.detach(ep.isend(0, 6, bytes.clone()).unwrap());
        assert!(ep.wait(received).unwrap().buffer == bytes, "{len} bytes, expected");
    }
    assert_eq!(ep.counters().iter().find(|(n, _)| n == "endpoint.operations").unwrap().1, 0);
}

#[test]
fn receives_are_met_in_order_across_wildcards() {
    let ep = endpoint();
    let any = ep.irecv(Source::Any, Tag::ANY, vec![0; 1]);
    let exact = ep.irecv(0, 9, vec![0; 1]);
    let masked = ep.irecv(0, Tag::masked(0x100, 0xff), vec![0; 1]);
    for (tag, byte) in [(9, 1), (9, 2), (0x1ab, 3)] {
        ep.send(0, tag, &[byte]).unwrap();
    }
    let received = ep.wait_all(vec![any, exact, masked]).unwrap();
    assert_eq!(received.iter().map(|c| c.buffer[0]).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(received[2].status.tag(), 0x1ab);
}

#[test]
fn a_message_longer_than_its_receive_is_an_error_that_says_so() {
    let ep = endpoint();
    for len in [100, 1 << 20] {
        let sent = ep.isend(0, 1, vec![7; len]).unwrap();
        let mut into = [0; 10];
        match ep.recv(0, 1, &mut into).unwrap_err() {
            Error::Truncated { status, room } => assert_eq!((status.len, room), (len, 10)),
            other => panic!("{other}"),
        }
        assert_eq!(into, [7; 10]);
        ep.wait(sent).unwrap();
    }
}

#[test]
fn probes_see_a_message_and_mprobe_takes_it() {
    let ep = endpoint();
    assert!(ep.iprobe(0, 3).is_none());
    ep.send(0, 3, b"first").unwrap();
    ep.send(0, 3, b"second").unwrap();
    assert_eq!(ep.probe(Source::Any, 3).unwrap().len, 5);
    let matched = ep.mprobe(0, 3).unwrap();
    assert_eq!(matched.status().len, 5);
    let mut into = [0; 6];
    assert_eq!(ep.recv(0, 3, &mut into).unwrap().len, 6);
    ep.mrecv(matched, &mut into).unwrap();
    assert_eq!(&into[..5], b"first");
}

#[test]
fn what_is_cancelled_or_out_of_time_leaves_nothing_behind() {
    let ep = endpoint();
    let received = ep.irecv(0, 1, vec![0; 8]);
    assert!(ep.cancel(&received));
    assert_eq!(ep.wait(received).unwrap_err(), Error::Cancelled);
    let mut into = [0; 8];
    let error = ep.recv_timeout(0, 1, &mut into, 1_000_000).unwrap_err();
    assert!(matches!(error, Error::TimedOut { .. }));
    // If the tender has seen it before, it is a message like any other.
    let cancelled = (0..1000).any(|_| {
        let announced = ep.isend(0, 1, vec![0; 1 << 20]).unwrap();
        if ep.cancel(&announced) {
            assert_eq!(ep.wait(announced).unwrap_err(), Error::Cancelled);
            return true;
        }
        assert_eq!(ep.recv(0, 1, &mut vec![0; 1 << 20]).unwrap().len, 1 << 20);
        ep.wait(announced).unwrap();
        false
    });
    assert!(cancelled);
    ep.send(0, 1, b"still").unwrap();
    assert_eq!(ep.recv(0, 1, &mut into).unwrap().len, 5);
}

#[test]
fn a_scope_waits_for_what_it_started() {
    let ep = endpoint();
    let big = pattern(1 << 20);
    let mut into = vec![0; 1 << 20];
    let mut small = [0; 3];
    ep.scope(|s| {
        let _ = s.irecv(0, 1, &mut into);
        let _ = s.irecv(0, 2, &mut small);
        let _ = s.isend(0, 1, &big)?;
        let _ = s.isend(0, 2, b"abc")?;
        Ok(())
    })
    .unwrap();
    assert!(into == big && &small == b"abc");
}

#[test]
fn a_scope_that_fails_does_not_wait_for_messages_that_never_come() {
    let ep = endpoint();
    let mut into = [0; 3];
    let error = ep
        .scope(|s| {
            let _ = s.irecv(0, 1, &mut into);
            Err::<(), _>(Error::Cancelled)
        })
        .unwrap_err();
    assert_eq!(error, Error::Cancelled);
    ep.send(0, 1, b"abc").unwrap();
    assert_eq!(ep.recv(0, 1, &mut into).unwrap().len, 3);
}

#[test]
fn what_came_for_the_endpoint_before_there_was_one_is_not_lost() {
    let mut context = context();
    for tag in [5, 6] {
        let mut message = context.reserve(0, 3).unwrap();
        message.bytes().copy_from_slice(b"abc");
        message.send(&tagged(tag));
        assert!(context.try_recv().unwrap().is_none(), "an endpoint's message is no context's");
    }
    let ep = Endpoint::new(context).unwrap();
    let mut into = [0; 3];
    for tag in [5, 6] {
        assert_eq!(ep.recv(0, Tag::ANY, &mut into).unwrap().tag(), tag);
    }
    assert_eq!(&into, b"abc");
}

#[test]
fn who_is_out_of_its_group_broadcasts_nothing_there_and_waits_for_nothing() {
    let me = Address::new(1, 2, 3, 4, "here");
    let mut device = Loopback::new(me);
    device.associate(PeerId(0), &me).unwrap();
    let place = Place { rank: PeerId(0), size: 2, on_node: 1 };
    let ep = Endpoint::new(Context::on_device(Box::new(device), place, 0).unwrap()).unwrap();
    let seat = Group::all(&ep, &GroupOptions::default()).unwrap().into_seat();
    {
        // Member 1 says that this one is gone.
        let mut work = ep.station.lock();
        let (id, _) = work.groups.team_at(seat.slot()).unwrap();
        let mut word = id.to_le_bytes().to_vec();
        word.extend([1, 0, 0, 0, 2, 9, 0, 0]);
        word.extend([0; 12]);
        let EndpointWork { groups, device, .. } = &mut *work;
        groups.accept(&mut **device, PeerId(1), &word);
        work.pass_on();
    }
    let group = seat.on(&ep);
    for root in [0, 1] {
        let error = group.broadcast(root, &mut [0; 9]).unwrap_err();
        assert!(matches!(&error, Error::PeerDead { peer: PeerId(0), .. }), "{error}");
    }
}
