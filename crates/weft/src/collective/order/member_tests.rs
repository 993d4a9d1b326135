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
        assert_eq!(member.deliver(2), Some(Delivery { sender: 1, bytes }));
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
