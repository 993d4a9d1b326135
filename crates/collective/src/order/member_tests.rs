//! One member of an ordered group, told this and that.

use super::super::broadcast::To;
use super::*;

/// Bytes of a datagram.
const DATAGRAM: usize = 16 + frame::HEAD_MAX;

#[test]
fn a_member_far_behind_keeps_what_comes_and_asks_for_nothing() {
    let limits = Limits { window: 8, history: 64, ..Limits::default() };
    let mut member = Member::new(limits, 2, 3);
    // What sequencer 0 says comes late, so its sender is windows ahead.
    for message in 1..=72u64 {
        let bytes = &message.to_le_bytes();
        let data = Frame::Data { reign: 0, message, delivered: 0, more: false, bytes };
        member.take(1, &data, 1);
    }
    let accepts = [(1, 0, 60), (61, 30, 12)];
    for (number, stable, count) in accepts {
        let message = number;
        let accept = Frame::Accept { reign: 0, number, stable, view: 0, sender: 1, message, count };
        member.take(0, &accept, 2);
    }
    for message in 1..=72u64 {
        let bytes = message.to_le_bytes().to_vec();
        assert_eq!(member.deliver(2), Some(Ok(Delivery { sender: 1, bytes })));
    }
    let asks = |frame: &Frame<'_>| matches!(frame, Frame::Ask { .. });
    while let Some(asked) = member.poll(1_000_000_000, |_, frame| asks(frame)) {
        assert!(!asked);
    }
}

#[test]
fn a_sequencer_that_never_says_what_all_have_costs_bounded_memory() {
    let limits = Limits { window: 8, history: 16, ..Limits::default() };
    let mut member = Member::new(limits, 1, 2);
    for number in 1..=1000u64 {
        let data = Frame::Data { reign: 0, message: number, delivered: 0, more: false, bytes: b"" };
        member.take(0, &data, number);
        let (sender, message, count) = (0, number, 1);
        let accept = Frame::Accept { reign: 0, number, stable: 0, view: 0, sender, message, count };
        member.take(0, &accept, number);
        let _ = member.deliver(number);
    }
    assert_eq!(member.kept() as u64, KEPT_MAX * limits.history);
    // As soon as it does, all goes on.
    member.take(0, &Frame::Tell { reign: 0, last: 70, stable: 60, view: 0, asks: false }, 2000);
    assert_eq!(member.kept() as u64, KEPT_MAX * limits.history - 60 + limits.history);
}

#[test]
fn nothing_goes_again_while_there_is_progress() {
    let limits = Limits { window: 1000, ..Limits::default() };
    let mut member = Member::new(limits, 1, 2);
    let mut resent = 0;
    for number in 1..=300u64 {
        let now = number * limits.patience_ns / 4;
        assert!(member.cast(b"x", DATAGRAM, now));
        // Each is delivered 20 messages, five patiences, after it was sent.
        if let Some(number) = number.checked_sub(20).filter(|number| *number > 0) {
            let (sender, message, count) = (1, number, 1);
            let accept =
                Frame::Accept { reign: 0, number, stable: 0, view: 0, sender, message, count };
            member.take(0, &accept, now);
        }
        while let Some(again) = member.poll(now, |to, _| to != To::All) {
            // It has to learn first how long that takes.
            resent += u64::from(again && number > 30);
        }
    }
    assert_eq!(resent, 0);
}

#[test]
fn nonsense_changes_nothing() {
    let limits = Limits::default();
    let mut member = Member::new(limits, 1, 3);
    let frames = [
        Frame::Accept { reign: 1, number: 1, stable: 0, view: 0, sender: 0, message: 1, count: 1 },
        Frame::Accept {
            reign: 0,
            number: u64::MAX,
            stable: u64::MAX,
            view: 0,
            sender: 9,
            message: 0,
            count: 9,
        },
        Frame::Accept {
            reign: 0,
            number: 0,
            stable: u64::MAX,
            view: 0,
            sender: 0,
            message: 0,
            count: 0,
        },
        Frame::Status { reign: 1, delivered: u64::MAX, view: 0 },
        Frame::Ask { reign: 0, first: 0, last: u64::MAX, surely: false },
        Frame::Again { reign: 0, number: 0, sender: 77, message: 1, more: false, bytes: b"x" },
        Frame::Data { reign: 0, message: u64::MAX, delivered: u64::MAX, more: true, bytes: b"x" },
        Frame::Data { reign: 0, message: 0, delivered: 0, more: false, bytes: b"x" },
    ];
    for from in [0, 1, 2, 3, u32::MAX] {
        for frame in &frames {
            member.take(from, frame, 5);
        }
    }
    assert_eq!((member.deliver(5), member.kept()), (None, 0));
    for bytes in [&b""[..], b"\x01", b"\x07\0\0\0\0", b"\x04\0\0\0\0\0\0\0\0\0\0\0\0\0"] {
        assert_eq!(Frame::decode(bytes), Err(FrameError { len: bytes.len() }));
    }
}

#[test]
fn a_message_without_an_end_costs_bounded_memory_and_is_left_out() {
    let limits = Limits { message_max: 100, ..Limits::default() };
    let mut member = Member::new(limits, 1, 2);
    let mut give = |message: u64, len: usize, more: bool| {
        let bytes = &vec![7; len][..];
        member.take(0, &Frame::Data { reign: 0, message, delivered: 0, more, bytes }, message);
        let (number, sender, count, stable) = (message, 0, 1, message - 1);
        let accept = Frame::Accept { reign: 0, number, stable, view: 0, sender, message, count };
        member.take(0, &accept, message);
        member.deliver(message)
    };
    for message in 1..=1000 {
        assert_eq!(give(message, 60, true), None);
    }
    assert_eq!(give(1001, 1, false), Some(Err(Overlong { sender: 0 })));
    // One that is as long as it may be.
    assert_eq!(give(1002, 60, true), None);
    let Some(Ok(next)) = give(1003, 40, false) else { panic!("the next is not delivered") };
    assert_eq!((next.sender, next.bytes.len()), (0, 100));
}

#[test]
fn what_is_asked_for_without_end_is_not_kept_to_be_sent() {
    let mut member = Member::new(Limits::default(), 0, 2);
    for _ in 0..16 {
        assert!(member.cast(b"x", DATAGRAM, 1));
    }
    for _ in 0..10_000 {
        member.take(1, &Frame::Ask { reign: 0, first: 1, last: 16, surely: false }, 1);
    }
    let mut sent = 0;
    while member.poll(1, |_, _| ()).is_some() {
        sent += 1;
    }
    assert!(sent <= OUT_MAX + 100, "{sent} frames");
    // The next question is answered.
    member.take(1, &Frame::Ask { reign: 0, first: 3, last: 3, surely: false }, 1);
    assert_eq!(member.poll(1, |to, _| to), Some(To::One(1)));
}

#[test]
fn only_one_that_takes_over_takes_numbers_from_others() {
    let again = |reign, number, message| Frame::Again {
        reign,
        number,
        sender: 2,
        message,
        more: false,
        bytes: b"false",
    };
    let mut first = Member::new(Limits::default(), 0, 3);
    first.take(1, &again(0, 1, 1), 1);
    assert_eq!(first.deliver(1), None, "the sequencer alone gives numbers");
    // One that has taken over goes on as well.
    let mut second = Member::new(Limits::default(), 1, 3);
    second.bury(0, 1);
    second.take(2, &again(1, 1, 1), 2);
    let view = second.view();
    second.take(2, &Frame::Status { reign: 1, delivered: 1, view }, 3);
    assert!(second.deliver(3).is_some_and(|next| next.is_ok_and(|next| next.sender == 2)));
    second.take(2, &again(1, 2, 2), 4);
    assert_eq!(second.deliver(4), None);
}

#[test]
fn who_claims_more_than_anybody_can_have_holds_no_takeover_up() {
    let mut member = Member::new(Limits::default(), 1, 3);
    member.bury(0, 1);
    let view = member.view();
    member.take(2, &Frame::Status { reign: 1, delivered: u64::MAX, view }, 2);
    assert!(member.cast(b"x", DATAGRAM, 3));
    assert_eq!(member.deliver(3).map(|next| next.unwrap().bytes), Some(b"x".to_vec()));
}

/// Polls a member until it has nothing to send; what it has asked for, and of whom.
fn asks(member: &mut Member, now_ns: u64) -> Vec<(To, u64)> {
    let mut asked = Vec::new();
    let ask = |to, frame: &Frame<'_>| match frame {
        Frame::Ask { first, .. } => Some((to, *first)),
        _ => None,
    };
    while let Some(sent) = member.poll(now_ns, ask) {
        asked.extend(sent);
    }
    asked
}

#[test]
fn who_claims_what_it_never_gives_holds_a_takeover_up_for_a_while_only() {
    let limits = Limits::default();
    let (mut member, limit) = (Member::new(limits, 1, 3), limits.takeover_ns);
    member.bury(0, 1);
    assert_eq!(member.overdue(u64::MAX), None, "it may not have begun yet");
    let view = member.view();
    member.take(2, &Frame::Status { reign: 1, delivered: 5, view }, 2);
    assert_eq!(asks(&mut member, 2), [(To::One(2), 1)]);
    assert_eq!(member.retry_ns().map(|at| at < limit), Some(true), "it asks again before");
    assert_eq!(member.overdue(1 + limit), None);
    // It may have been this member that was stopped.
    assert_eq!(member.overdue(2 + limit), None);
    assert_eq!(member.overdue(3 + limit), None);
    assert_eq!(member.overdue(2 + 2 * limit), Some(2));
    assert!(member.cast(b"x", DATAGRAM, 3) && member.deliver(3).is_none());
    member.bury(2, 4);
    assert_eq!(member.deliver(5).map(|next| next.unwrap().bytes), Some(b"x".to_vec()));
    assert_eq!(member.overdue(u64::MAX), None);
}

#[test]
fn who_claims_ever_more_is_believed_up_to_a_history() {
    let limits = Limits { history: 8, ..Limits::default() };
    let mut member = Member::new(limits, 1, 3);
    member.bury(0, 1);
    let view = member.view();
    for number in 1..=100 {
        member.take(2, &Frame::Status { reign: 1, delivered: number, view }, number);
        let (sender, message, more) = (2, number, false);
        let bytes = &b"y"[..];
        member.take(2, &Frame::Again { reign: 1, number, sender, message, more, bytes }, number);
    }
    // It has taken no more, and gives numbers, though its program takes nothing.
    assert!(member.cast(b"x", DATAGRAM, 101));
    let mut given = Vec::new();
    while let Some(next) = member.deliver(102) {
        given.push(next.unwrap().sender);
    }
    assert!(given.len() <= 9 && given.last() == Some(&1), "{given:?}");
}

#[test]
fn a_new_sequencer_that_is_there_and_says_nothing_is_not_waited_for_for_ever() {
    let limits = Limits::default();
    let (mut member, limit) = (Member::new(limits, 2, 3), limits.takeover_ns);
    let data = Frame::Data { reign: 0, message: 1, delivered: 0, more: false, bytes: b"x" };
    member.take(1, &data, 1);
    member.bury(0, 2);
    assert_eq!(member.overdue(limit + 3), None, "it may wait for others itself");
    // It says that it is about to.
    let (delivered, view) = (0, member.view());
    member.take(1, &Frame::Status { reign: 1, delivered, view }, limit);
    for (at, overdue) in [(2 * limit, None), (3 * limit, None), (4 * limit, Some(1))] {
        assert_eq!(member.overdue(at), overdue);
    }
}
