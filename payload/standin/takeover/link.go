package takeover

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	stats "go.etcd.io/etcd/server/v3/etcdserver/api/v2stats"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/holdfast/holdfast/payload/standin/vote"
)

// link carries messages between the survivor's etcd and a Voter. It does not
// listen: it opens etcd's own streams to the survivor, which answers on them.
type link struct {
	tr *rafthttp.Transport
	// changed gets a value after each message that brought news.
	changed chan struct{}
	// refused gets the Voter's refusal.
	refused chan error
	// rejected gets an error if the survivor does not accept our messages.
	rejected chan error

	mu    sync.Mutex
	voter *vote.Voter
	state linkState
	held  []raftpb.Message
}

// linkState tells how to treat an incoming message.
type linkState int

const (
	holding   linkState = iota // store it: we may not be allowed to answer
	answering                  // answer it
	closed                     // drop it
)

// openLink connects to the survivor. It answers nothing before release.
func openLink(req Request, voter *vote.Voter, log *zap.Logger) (*link, error) {
	l := &link{
		voter: voter, changed: make(chan struct{}, 1),
		refused: make(chan error, 1), rejected: make(chan error, 1),
	}
	id := types.ID(req.Target)
	l.tr = &rafthttp.Transport{
		Logger: log, DialTimeout: askTimeout, DialRetryFrequency: rate.Every(retryEvery / 2),
		TLSInfo: req.TLS.info(), ID: id, ClusterID: types.ID(req.Cluster), Raft: l,
		ServerStats: stats.NewServerStats("", id.String()), LeaderStats: stats.NewLeaderStats(log, id.String()),
		ErrorC: l.rejected,
	}
	if err := l.tr.Start(); err != nil {
		return nil, err
	}
	l.tr.AddPeer(types.ID(req.Survivor), []string{req.PeerURL})
	return l, nil
}

// close ends the stand-in, which then answers nothing more.
func (l *link) close() {
	l.mu.Lock()
	l.state = closed
	l.mu.Unlock()
	l.tr.Stop()
}

// progress returns the Voter's progress.
func (l *link) progress() vote.Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.voter.Progress()
}

// ask sends the Voter's question, if it has one.
func (l *link) ask() {
	l.mu.Lock()
	question := l.voter.Ask()
	l.mu.Unlock()
	l.tr.Send(question)
}

// release answers all stored messages, and every later one at once.
func (l *link) release(least uint64) {
	l.mu.Lock()
	l.voter.Raise(least)
	l.state = answering
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, m := range held {
		l.answer(m)
	}
}

// Process takes one message of the survivor. The transport calls it.
func (l *link) Process(_ context.Context, m raftpb.Message) error {
	l.mu.Lock()
	state := l.state
	if state == holding {
		l.held = append(l.held, m)
	}
	l.mu.Unlock()
	if state == answering {
		l.answer(m)
	}
	return nil
}

func (l *link) answer(m raftpb.Message) {
	l.mu.Lock()
	before := l.voter.Progress()
	answers, err := l.voter.Step(m)
	learned := before != l.voter.Progress()
	l.mu.Unlock()
	switch {
	case err != nil:
		offer(l.refused, err)
	case learned:
		offer(l.changed, struct{}{})
	}
	l.tr.Send(answers)
}

// IsIDRemoved is for the transport of a listener, which we do not have.
func (l *link) IsIDRemoved(uint64) bool { return false }

// ReportUnreachable does nothing, because the transport tries again by itself.
func (l *link) ReportUnreachable(uint64) {}

// ReportSnapshot does nothing, because we send no snapshots.
func (l *link) ReportSnapshot(uint64, raft.SnapshotStatus) {}

// offer sends without waiting.
func offer[T any](c chan<- T, v T) {
	select {
	case c <- v:
	default:
	}
}

// askEvery returns the wait before the next question.
func askEvery(p vote.Progress) time.Duration {
	if p.Answered {
		return 10 * retryEvery
	}
	return retryEvery
}

var errLinkRejected = errors.New("etcd does not take messages of this member")
