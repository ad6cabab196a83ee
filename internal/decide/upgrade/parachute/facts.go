package parachute

import (
	"time"

	"github.com/holdfast/holdfast/internal/model/state"
)

// Wish is what the cluster wants of a host.
type Wish string

// The wishes.
const (
	// Stay: the host begins no way, and ends the one that it is on.
	Stay Wish = "stay"
	// Go: the host has its turn to go to Turn.To.
	Go Wish = "go"
	// GoBack: the host has its turn to return to its old release.
	GoBack Wish = "go back"
)

// Turn is what the cluster wants, with the releases that it means.
type Turn struct {
	Wish Wish
	// Upgrade identifies the upgrade; another one to the same release has another.
	Upgrade  string
	From, To string
	// Raise is true once the servers of the host are to behave as what they are, and
	// Kubelet once its kubelet is to be that of the new release too.
	Raise, Kubelet bool
	// Attempt is which attempt of the host the turn is for; 0 if nobody says it. The next one waits
	// for the next turn: the cluster asks all that it asks before any host begins.
	Attempt int
	// Back is true if the site goes back, and this host, which was installed with its new release, goes
	// to the old one as to any other.
	Back bool
}

// Facts is what a host knows when it decides.
type Facts struct {
	Kind Kind
	// Turn is unknown while the API does not answer.
	Turn state.Fact[Turn]
	// Boot identifies the present boot, Up is for how long it lasts.
	Boot string
	Up   time.Duration
	// Running is the digest to which the switch leads. Previous is the one to which a
	// return would lead; empty once the old release was removed.
	Running, Previous string
	// Unreadable is true if the journal could not be read. Then Kept is true if the units of the
	// parachute that leads back to Previous lie on the host: only a host on a way has them.
	Unreadable, Kept bool
	// Whole is true if everything of the old release lies on the host and was
	// compared.
	Whole state.Fact[bool]
	// Newer names what of the data on this host the old release cannot read; empty if
	// it can read everything.
	Newer state.Fact[string]
	// Closed is true if the cluster has recorded that the way back is closed.
	Closed state.Fact[bool]
	// Serves is true while this host's etcd commits and its API server answers; a
	// worker never serves. PeerServes is true while another control plane does.
	Serves, PeerServes state.Fact[bool]
	// PeerAway is for how long no other control plane has been known to serve; 0 while one is.
	PeerAway time.Duration
	// PeerBack is true while the other control planes have been known to serve for less than a
	// minute since they were not.
	PeerBack bool
	// Spare is true while two other control planes serve, so that etcd of three keeps its majority
	// without this host. Few is true if only one other has a Node. Both are asked of OfMore alone.
	Spare state.Fact[bool]
	Few   bool
	// Apart is true while Corosync has no other host. It is asked of OfTwo alone, while it prepares
	// or returns, and between its switch and its end.
	Apart state.Fact[bool]
	// PeerGone is true once the other one of two control planes was taken out for good, until
	// another machine has its place.
	PeerGone bool
	// Released is true once the host has no leadership, VIP and pods that have to
	// move; Quiet once its etcd has left and its daemons have ended; Timer while the
	// parachute's timer runs.
	Released, Quiet, Timer bool
	// Trial is for how long others that run the new release still have to lead, and to hold
	// the VIPs, before this host leaves; 0 if they have for long enough, or no other host
	// runs it.
	Trial time.Duration
	// Emptied is true once other hosts have the pods of this one, or there is no other host.
	Emptied bool
	// Daemons is true once all daemons of the running release were started.
	Daemons bool
	// Risen is true once the servers of the host behave as what they are, as far as it has
	// any. Held is true while its kubelet is that of an older release.
	Risen state.Fact[bool]
	Held  bool
	// Watchdog counts how often the agent of the new release was killed since the
	// switch because it hung.
	Watchdog int
	// Proof is what the running release has shown.
	Proof Proof
}
