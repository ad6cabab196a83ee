package state

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// EtcdState says what a host may do with its data directory of etcd
// (docs/adr/0010-two-node-protocol.md).
type EtcdState string

// The states of a record.
const (
	EtcdNone       EtcdState = "none"        // no data
	EtcdLearner    EtcdState = "learner"     // joining; with member 0 it waits to be added
	EtcdVoter      EtcdState = "voter"       // promoted, but may lack writes
	EtcdPair       EtcdState = "pair"        // a voter that holds every acknowledged write
	EtcdTakingOver EtcdState = "taking-over" // the peer cannot act; its removal is not committed yet
	EtcdSole       EtcdState = "sole"        // the peer is no voter, or never became eligible
	EtcdDeparting  EtcdState = "departing"   // leaves, or has given its data directory up
	// EtcdWidening and EtcdMajority are states of two hosts that let a third member vote
	// (docs/adr/0097). A host that is widening gave up its right to go on without the peer. In
	// majority it has read that the peer gave it up, too.
	EtcdWidening EtcdState = "widening"
	EtcdMajority EtcdState = "majority"
)

var etcdStates = []EtcdState{EtcdNone, EtcdLearner, EtcdVoter, EtcdPair, EtcdTakingOver, EtcdSole, EtcdDeparting, EtcdWidening, EtcdMajority}

// Leads reports whether a host with a record of this state goes on, or went on,
// without its peer.
func (s EtcdState) Leads() bool { return s == EtcdTakingOver || s == EtcdSole }

// Behind reports whether the data directory that belongs to a record of this state may lack
// acknowledged writes, so that no host ever goes on with it without its peer.
func (s EtcdState) Behind() bool {
	return s == EtcdNone || s == EtcdLearner || s == EtcdVoter || s == EtcdDeparting
}

// MemberID is the id that etcd gave to a member, or to a cluster; zero is no
// member. It is printed in hex, as etcdctl prints it.
type MemberID uint64

// String returns the id as etcdctl prints it.
func (id MemberID) String() string { return strconv.FormatUint(uint64(id), 16) }

// MarshalText writes the id as etcdctl prints it.
func (id MemberID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (id *MemberID) UnmarshalText(b []byte) error {
	n, err := strconv.ParseUint(string(b), 16, 64)
	if err != nil {
		return fmt.Errorf("member id %q is not a hex number: %w", b, err)
	}
	*id = MemberID(n)
	return nil
}

// EtcdRecord holds what a host knows for certain about its own part in the
// two-node protocol. It is written atomically and synced before the step that it
// announces; the peer only gets a copy of it.
type EtcdRecord struct {
	State EtcdState `json:"state"`
	// Seq counts the writes of this record. It tells the peer whether a statement
	// is about this record or about an earlier one.
	Seq     uint64   `json:"seq"`
	Cluster MemberID `json:"cluster,omitempty"`
	Member  MemberID `json:"member,omitempty"`
	// Yields is the member id that this host gave up for good, with its data
	// directory: its etcd is stopped and will never run under that id again. A
	// learner that was accepted keeps it until its first start. So a data directory
	// that never existed can be told from one that was lost.
	Yields MemberID `json:"yields,omitempty"`
	// Paired names the peer's record that made this one a pair.
	Paired EtcdPairing `json:"paired,omitzero"`
	// TakeOver names the last take-over, empty before the first.
	TakeOver EtcdTakeOver `json:"takeOver,omitzero"`
	Written  time.Time    `json:"written"`
	// Proof is the evidence that a take-over relied on.
	Proof EtcdProof `json:"proof,omitzero"`
	// Forced is set while an administrator's confirmation stands in for a proof.
	Forced EtcdForced `json:"forced,omitzero"`
	// Third is the member that the two let in, in the states widening and majority only.
	Third MemberID `json:"third,omitempty"`
}

// EtcdPairing names a peer's record as of one of its writes.
type EtcdPairing struct {
	Member MemberID `json:"member"`
	Seq    uint64   `json:"seq"`
}

// EtcdTakeOver names a take-over.
type EtcdTakeOver struct {
	ID      string `json:"id"`      // random
	Counter uint64 `json:"counter"` // the number of take-overs by this host
}

// ProofKind is a reason to be sure that the peer cannot act.
type ProofKind string

// The proofs.
const (
	ProofFenced    ProofKind = "fenced"    // read back as exactly Off, after the last contact
	ProofHuman     ProofKind = "human"     // an administrator confirmed that it is off
	ProofYielded   ProofKind = "yielded"   // it gave its data directory up
	ProofRenounced ProofKind = "renounced" // its member id differs from the listed one
	ProofWaiting   ProofKind = "waiting"   // it has read our record and its etcd is stopped
	ProofRetired   ProofKind = "retired"   // it was retired, and no other host has its place yet
)

// EtcdProof is the evidence of a take-over, kept for later questions.
type EtcdProof struct {
	Kind   ProofKind `json:"kind"`
	Detail string    `json:"detail"`
	// Member is the member that the peer gave up for good, of ProofYielded alone. A release of
	// before leaves it out, and does not read it.
	Member MemberID `json:"member,omitempty"`
}

// EtcdForced names the person who overrode the protocol, and the reason.
type EtcdForced struct {
	Who string    `json:"who"`
	Why string    `json:"why"`
	At  time.Time `json:"at,omitzero"`
}

// etcdRecordVersion is the number that this release writes and the highest that it
// reads. A field that changes what a reader may conclude gets a higher one.
const etcdRecordVersion = 1

type etcdRecordFile struct {
	Version int             `json:"version"`
	SHA256  string          `json:"sha256"`
	Record  json.RawMessage `json:"record"`
}

// EncodeEtcdRecord returns the contents of a record's file.
func EncodeEtcdRecord(r EtcdRecord) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("encode record of etcd: %w", err)
	}
	body, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode record of etcd: %w", err)
	}
	out, err := json.Marshal(etcdRecordFile{etcdRecordVersion, sum(body), body})
	if err != nil {
		return nil, fmt.Errorf("encode record of etcd: %w", err)
	}
	return append(out, '\n'), nil
}

// DecodeEtcdRecord reads the form that EncodeEtcdRecord writes. A file that is
// torn, changed by hand, of a higher number or of an unknown state is an error:
// nobody may act on a record that is only half understood. It ignores fields that it
// does not know: a later release adds them under the same number only if a reader
// that does not know them concludes the same.
func DecodeEtcdRecord(b []byte) (EtcdRecord, error) {
	var file etcdRecordFile
	if err := json.Unmarshal(b, &file); err != nil {
		return EtcdRecord{}, fmt.Errorf("read record of etcd: torn or not a record: %w", err)
	}
	if file.Version != etcdRecordVersion {
		return EtcdRecord{}, fmt.Errorf("read record of etcd: version %d, this holdfast knows version %d: install the version that wrote it", file.Version, etcdRecordVersion)
	}
	if file.SHA256 != sum(file.Record) {
		return EtcdRecord{}, errors.New("read record of etcd: checksum does not match: torn or changed by hand")
	}
	var r EtcdRecord
	if err := json.Unmarshal(file.Record, &r); err != nil {
		return EtcdRecord{}, fmt.Errorf("read record of etcd: written by a newer holdfast: %w", err)
	}
	if err := r.check(); err != nil {
		return EtcdRecord{}, fmt.Errorf("read record of etcd: %w", err)
	}
	return r, nil
}

// check returns an error if the fields contradict each other.
func (r EtcdRecord) check() error {
	switch r.State {
	case EtcdNone, EtcdLearner:
		return nil
	case EtcdVoter, EtcdPair, EtcdSole, EtcdDeparting:
	case EtcdTakingOver:
		if r.TakeOver.ID == "" {
			return errors.New("a take-over has no id")
		}
	case EtcdWidening, EtcdMajority:
		if r.Third == 0 {
			return fmt.Errorf("state %s names no third member", r.State)
		}
	default:
		return fmt.Errorf("state %q is unknown", r.State)
	}
	if r.Member == 0 || r.Cluster == 0 {
		return fmt.Errorf("state %s names no member or no cluster", r.State)
	}
	return nil
}

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}
