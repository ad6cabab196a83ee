// Package member gathers what one of two etcd hosts sees into the snapshot on which
// the two-node protocol decides. What it could not find out in time stays unknown.
package member

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Look is the local etcd's answer about itself.
type Look struct {
	Cluster, Member, Leader state.MemberID
	Members                 []state.EtcdMember
}

// Sources are the adapters from which a snapshot is made. Each adapter bounds its
// call.
type Sources struct {
	// Boot returns the id of this boot and the time since it began.
	Boot func() (id string, uptime time.Duration, err error)
	Now  func() time.Time
	// Record reads the durable record.
	Record func() (state.EtcdRecord, error)
	// Held reports whether a process holds the data, which counts as running.
	Held func() (bool, error)
	// Look asks the local etcd.
	Look func(context.Context) (Look, error)
	// Inspect examines the data of an etcd that is down.
	Inspect func(context.Context) (state.EtcdData, error)
	// StandIn returns the member for which a stand-in speaks on this host, or zero.
	StandIn func() (state.MemberID, error)
	// Statement reads the peer's last statement.
	Statement func(ctx context.Context, peer string) (state.EtcdStatement, bool, error)
	Fenced    func(peer string) (state.Fact[state.EtcdFenced], error)
	Human     func() (state.Fact[state.Confirmation], error)
	// Retired reads which peer was retired and has no successor yet. It may be nil.
	Retired func() (state.Fact[state.EtcdRetired], error)
	// Third reads the plan's word about a third host: known and empty without one. It may be nil.
	Third func() (state.Fact[state.EtcdThirdWord], error)
	// Behind returns how many entries of this host's log the third host's etcd lacks. It may be nil.
	Behind func(word state.EtcdThirdWord) state.Fact[uint64]
	// Power returns the recent answer of the peer's BMC, unknown if nobody asked
	// it.
	Power func() state.Fact[string]
	// GivesWay reports whether the peer said, since it was lost, that it gives way
	// to this host; nil counts as never.
	GivesWay func() bool
	// Pulse returns for how long nothing was committed through the local etcd, and
	// what this host's own tests found; nil if nobody measures that.
	Pulse func(running bool) (stalled time.Duration, sick string)
	// Addresses returns this host's addresses on all its networks, and the hardware
	// addresses of its NICs there; nil for none.
	Addresses func() (addresses []netip.Addr, hardware []string)
}

// Observer makes snapshots, and remembers between them everything that has a
// duration.
type Observer struct {
	Host, Peer string
	Sources
	Memory *Memory

	mu         sync.Mutex
	membership state.Fact[state.Membership]

	data       state.Fact[state.EtcdData]
	dataIsOld  bool
	examined   time.Duration // when the data were last examined
	leaderless time.Duration // when it began, zero if there is a leader
	answered   time.Duration // when etcd last answered
	down       time.Duration // when etcd was first seen down, zero while it is up
	received   state.EtcdStatement
	receivedAt time.Duration
}

// SetMembership takes Corosync's present membership. It may be called at any time.
func (o *Observer) SetMembership(m state.Fact[state.Membership]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.membership = m
}

// Ring returns the present membership's number, zero if it is unknown.
func (o *Observer) Ring() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.membership.Value.Ring
}

// Snapshot reads everything once.
func (o *Observer) Snapshot(ctx context.Context, w state.EtcdWishNote) (state.EtcdSnapshot, error) {
	boot, uptime, err := o.Boot()
	if err != nil {
		return state.EtcdSnapshot{}, err
	}
	s := state.EtcdSnapshot{Host: o.Host, Peer: o.Peer, Now: o.Now(), Nonce: nonce(), Boot: boot, Uptime: uptime}
	if r, err := o.Record(); err == nil {
		s.Record = state.Known(r)
	}
	if err := o.pacemaker(&s, w); err != nil {
		return s, err
	}
	o.local(ctx, &s)
	s.Local.Quarantine = o.Memory.Quarantine()
	if o.Addresses != nil {
		s.Addresses, s.Hardware = o.Addresses()
	}
	if state.Is(s.Pacemaker.Contact, true) {
		o.statement(ctx, &s)
	}
	o.proofs(&s)
	o.third(&s)
	return s, nil
}

// Mute returns for how long etcd has held its data without answering.
func (o *Observer) Mute(s state.EtcdSnapshot) time.Duration {
	if !state.Is(s.Local.Running, true) || s.Local.Members.Known {
		return 0
	}
	return s.Uptime - o.answered
}

// Down returns for how long etcd has been down.
func (o *Observer) Down(s state.EtcdSnapshot) time.Duration {
	if o.down == 0 {
		return 0
	}
	return s.Uptime - o.down
}

// Forget makes the next snapshot examine the data anew.
func (o *Observer) Forget() { o.dataIsOld = true }

func (o *Observer) pacemaker(s *state.EtcdSnapshot, w state.EtcdWishNote) error {
	o.mu.Lock()
	m := o.membership
	o.mu.Unlock()
	if w.Wish == state.EtcdStopped {
		s.Pacemaker.Leaving, s.Pacemaker.LeavingFor = true, s.Uptime-w.At
	}
	if !m.Known {
		return nil
	}
	contact := slices.Contains(m.Value.Members, o.Peer)
	joined, err := o.Memory.Joined(s.Boot, m.Value.Ring, contact, s.Uptime)
	if err != nil {
		return err
	}
	s.Pacemaker.Inert = state.Known(!m.Value.Quorate)
	s.Pacemaker.Contact = state.Known(contact)
	s.Pacemaker.Ring, s.Pacemaker.Joined, s.Pacemaker.Unseen = m.Value.Ring, joined, o.Memory.Unseen()
	if contact {
		s.Pacemaker.Together = o.Memory.Together()
	}
	s.Pacemaker.GivesWay = !contact && o.GivesWay != nil && o.GivesWay()
	return nil
}

func (o *Observer) local(ctx context.Context, s *state.EtcdSnapshot) {
	if id, err := o.StandIn(); err == nil {
		s.Local.StandIn = state.Known(id)
	}
	held, err := o.Held()
	if err != nil {
		return
	}
	s.Local.Running = state.Known(held)
	if o.Pulse != nil {
		s.Local.Stalled, s.Local.Sick = o.Pulse(held)
	}
	if held {
		o.running(ctx, s)
	} else {
		o.stopped(ctx, s)
	}
}

func (o *Observer) running(ctx context.Context, s *state.EtcdSnapshot) {
	if o.down != 0 || o.answered == 0 { // its time to answer begins now
		o.answered = s.Uptime
	}
	o.down, o.dataIsOld = 0, true
	look, err := o.Look(ctx)
	if err != nil {
		s.Data = o.data
		return
	}
	o.answered = s.Uptime
	o.data = state.Known(state.EtcdData{Copy: state.CopyWhole, Cluster: look.Cluster, Member: look.Member})
	s.Data = o.data
	s.Local.Leader, s.Local.Members = state.Known(look.Leader), state.Known(look.Members)
	if look.Leader != 0 {
		o.leaderless = 0
		return
	}
	if o.leaderless == 0 {
		o.leaderless = s.Uptime
	}
	s.Local.Leaderless = s.Uptime - o.leaderless
}

// examineAgain is the age at which data that are not whole are examined anew: what
// was wrong with them may be over.
const examineAgain = 10 * time.Second

// stopped examines the data once each time etcd stops, and again where they are not whole. Data that
// are not there may lie on a file system that is mounted late.
func (o *Observer) stopped(ctx context.Context, s *state.EtcdSnapshot) {
	if o.down == 0 {
		o.down = s.Uptime
	}
	o.leaderless = 0
	if o.dataIsOld || !o.data.Known || o.data.Value.Copy == state.CopyWhole && len(o.data.Value.Members) == 0 ||
		o.data.Value.Copy != state.CopyWhole && s.Uptime-o.examined >= examineAgain {
		o.data, o.dataIsOld, o.examined = state.Fact[state.EtcdData]{}, true, s.Uptime
		if d, err := o.Inspect(ctx); err == nil {
			o.data, o.dataIsOld = state.Known(d), false
		}
	}
	s.Data = o.data
}

// statement takes the peer's newest statement. Pacemaker may bring back an older
// one of the same boot: when hosts meet, the writer of attributes sends its values
// to all, and these may be older than what each host received meanwhile. The source
// adds to a statement that was received before what Pacemaker says of the peer now.
func (o *Observer) statement(ctx context.Context, s *state.EtcdSnapshot) {
	st, found, err := o.Statement(ctx, o.Peer)
	if err != nil || !found {
		return
	}
	newer := st.Boot != o.received.Boot || st.Serial > o.received.Serial
	if newer {
		o.receivedAt = s.Uptime
	}
	if newer || st.Serial == o.received.Serial {
		o.received = st
	}
	st = o.received
	st.Age = s.Uptime - o.receivedAt
	s.Statement = state.Known(st)
}

func (o *Observer) proofs(s *state.EtcdSnapshot) {
	s.Proofs.Heard = o.Memory.Heard()
	s.Proofs.Power = o.Power()
	if f, err := o.Fenced(o.Peer); err == nil {
		s.Proofs.Fenced = f
	}
	if h, err := o.Human(); err == nil {
		s.Proofs.Human = h
	}
	if o.Retired == nil {
		return
	}
	if r, err := o.Retired(); err == nil {
		s.Proofs.Retired = r
	}
}

// third reads what a plan says about a third host. A word that cannot be read may say that one comes.
func (o *Observer) third(s *state.EtcdSnapshot) {
	if o.Third == nil {
		return
	}
	word, err := o.Third()
	if err != nil || !word.Known {
		s.Third.Coming = true
		return
	}
	s.Third.Word, s.Third.Coming = word, word.Value.Plan != ""
	if o.Behind == nil {
		return
	}
	if behind := o.Behind(word.Value); s.Third.Coming { // without a plan it hears so, and asks nobody
		s.Third.Behind = behind
	}
}

func nonce() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}
