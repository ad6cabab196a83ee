package keeper

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/etcdhealth"
	"github.com/holdfast/holdfast/internal/decide/etcdmember"
	"github.com/holdfast/holdfast/internal/decide/fencerace"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

// newPulse returns a pulse whose reads and writes end as given.
func newPulse(read error, write func() error) *pulse {
	begin := time.Now().Add(-time.Hour)
	return &pulse{
		uptime: func() time.Duration { return time.Since(begin) }, blocked: func() bool { return false }, excused: func() bool { return false },
		read: func(context.Context) error { return read }, put: func(context.Context) error { return read }, write: write,
	}
}

func TestAStallIsNoticedAndAHangingDiskIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		p := newPulse(errors.New("no leader"), func() error { <-hang; return nil })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(noticeAfter - time.Second)
		if stalled, sick := p.state(true); stalled != 0 || sick != "" {
			t.Errorf("a moment ago all was well: %s, %q", stalled, sick)
		}
		time.Sleep(sickAfter)
		if stalled, sick := p.state(true); stalled == 0 || sick != "" {
			t.Errorf("the disk gets its time: %s, %q", stalled, sick)
		}
		time.Sleep(3 * time.Second)
		if _, sick := p.state(true); !strings.Contains(sick, "does not answer") {
			t.Errorf("%q", sick)
		}
		close(hang)
		p.read = func(context.Context) error { return nil }
		p.put = p.read
		time.Sleep(2 * pulseEvery)
		if stalled, sick := p.state(true); stalled != 0 || sick != "" {
			t.Errorf("a disk that answers again: %s, %q", stalled, sick)
		}
	})
}

func TestAPairWhoseHeartbeatsAlonePassIsStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(nil, func() error { return nil })
		p.put = func(context.Context) error { return errors.New("timed out") }
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(writeAfter + 10*time.Second)
		if stalled, sick := p.state(true); stalled < 8*time.Second || sick != "" {
			t.Errorf("%s, %q", stalled, sick)
		}
		p.put = func(context.Context) error { return nil }
		time.Sleep(2 * pulseEvery)
		if stalled, _ := p.state(true); stalled != 0 {
			t.Errorf("%s", stalled)
		}
	})
}

func TestAWriteThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errors.New("no leader"), func() error { return &os.PathError{Op: "open", Path: "x", Err: syscall.EROFS} })
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		time.Sleep(noticeAfter + 3*time.Second)
		if _, sick := p.state(true); sick != "the disk of etcd's data cannot be written: read-only file system" {
			t.Errorf("%q", sick)
		}
	})
}

func TestWhileClientsWriteNothingIsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errors.New("asked"), func() error { t.Error("written"); return nil })
		p.read = func(context.Context) error { t.Error("asked"); return nil }
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		for i := range uint64(20) {
			p.moved(100 + i)
			time.Sleep(time.Second)
		}
		if stalled, _ := p.state(true); stalled != 0 {
			t.Errorf("stalled for %s", stalled)
		}
	})
}

func TestAnEtcdThatWasStoppedInAStallKeepsItUntilItsNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errors.New("no leader"), func() error { return nil })
		p.state(true)
		time.Sleep(25 * time.Second)
		if stalled, _ := p.state(true); stalled != 25*time.Second {
			t.Errorf("%s", stalled)
		}
		time.Sleep(time.Minute)
		if stalled, _ := p.state(false); stalled != 25*time.Second {
			t.Errorf("stopped: %s", stalled)
		}
		if stalled, _ := p.state(true); stalled != 0 {
			t.Errorf("started: %s", stalled)
		}
	})
}

func TestAnEtcdThatAnswersNowAndThenCommitsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPulse(errors.New("no leader"), func() error { return nil })
		p.state(true)
		p.moved(100)
		go func() { _ = p.run(t.Context()) }()
		for range 5 {
			time.Sleep(5 * time.Second)
			p.moved(0) // first it does not answer, then it does
			p.moved(100)
		}
		if stalled, _ := p.state(true); stalled != 25*time.Second {
			t.Errorf("stalled for %s", stalled)
		}
	})
}

// files writes a CA and a certificate for a node, and returns its link to the
// peer.
func files(t *testing.T, ca *x509.Certificate, caKey *ecdsa.PrivateKey, name, peer string) pairTLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name, "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	signer, signerKey := ca, caKey
	if ca == nil {
		signer, signerKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signerKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(file, kind string, der []byte) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return pairTLS{peer: peer, ca: write("ca", "CERTIFICATE", signer.Raw), cert: write("cert", "CERTIFICATE", der), key: write("key", "EC PRIVATE KEY", keyDER)}
}

func authority(t *testing.T) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd-ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return ca, key
}

func TestOnlyThePeerIsAnsweredAndBelieved(t *testing.T) {
	ca, key := authority(t)
	one, two, third := files(t, ca, key, "cp-1", "cp-2"), files(t, ca, key, "cp-2", "cp-1"), files(t, ca, key, "worker-1", "cp-1")
	otherCA, otherKey := authority(t)
	forged := files(t, otherCA, otherKey, "cp-2", "cp-1")
	forged.ca = one.ca // it trusts the host's CA, but the host does not trust its certificate
	port := int(porttest.Free(t))
	go func() {
		_ = one.serve(t.Context(), port, func(bool) state.RaceAnswer { return state.RaceAnswer{GivesWay: time.Minute} }, logOf(t))
	}()
	at := []netip.Addr{netip.MustParseAddr("127.0.0.9"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}
	var answer state.RaceAnswer
	err := errors.New("not asked")
	for i := 0; i < 100 && err != nil; i++ { // it may not listen yet
		answer, err = two.ask(t.Context(), port, at, false)
	}
	if err != nil || answer.GivesWay != time.Minute {
		t.Fatalf("%+v, %v", answer, err)
	}
	for who, link := range map[string]pairTLS{"another node's certificate": third, "another authority": forged} {
		if answer, err := link.ask(t.Context(), port, at, false); err == nil {
			t.Errorf("%s: %+v", who, answer)
		}
	}
	impostor := int(porttest.Free(t))
	go func() {
		_ = third.serve(t.Context(), impostor, func(bool) state.RaceAnswer { return state.RaceAnswer{GivesWay: time.Hour} }, logOf(t))
	}()
	if answer, err := two.ask(t.Context(), impostor, at, false); err == nil {
		t.Errorf("a node that is not the peer was believed: %+v", answer)
	}
}

func TestAHostThatIsCutOffGivesWayAndItsPeerGoesFirst(t *testing.T) {
	now := time.Hour
	clock := func() time.Duration { return now }
	first, second := newRace(false, clock, logOf(t)), newRace(true, clock, logOf(t))
	second.ask = func(_ context.Context, back bool) (state.RaceAnswer, error) { return first.answer(back), nil }
	both := state.Known(state.Membership{Ring: 1})
	for _, r := range []*race{first, second} {
		r.setMembership(both, true)
		r.setMembership(both, false)
	}
	first.setReach(state.Reach{State: state.ReachNo, Why: "the cable carries no signal"})
	second.setReach(state.Reach{State: state.ReachYes})
	second.askOnce(t.Context())
	if got := second.decide(state.RaceRequest{Target: "cp-1", Readable: true, Cut: true}, state.EtcdReport{}); got.Turn != state.RaceFirst {
		t.Errorf("%+v", got)
	}
	if got := first.decide(state.RaceRequest{Target: "cp-2", Readable: true, Cut: true}, state.EtcdReport{}); got.Turn != state.RaceLast || got.Until != now+fencerace.Keep {
		t.Errorf("%+v", got)
	}
	now += fencerace.Keep
	if got := first.decide(state.RaceRequest{Target: "cp-2", Readable: true}, state.EtcdReport{}); got.Turn != state.RaceOrder {
		t.Errorf("not for ever: %+v", got)
	}
}

// TestAHostWhoseDataLackWritesGivesWayToThePeerThatItLost: both can be reached, and the first by
// name would go first.
func TestAHostWhoseDataLackWritesGivesWayToThePeerThatItLost(t *testing.T) {
	now := time.Hour
	r := newRace(false, func() time.Duration { return now }, logOf(t))
	r.setReach(state.Reach{State: state.ReachYes})
	r.behind = func() bool { return true }
	both := state.Known(state.Membership{Ring: 1})
	r.setMembership(both, true)
	cut := state.RaceRequest{Target: "cp-2", Readable: true, Cut: true}
	if a := r.answer(false); a.GivesWay != 0 {
		t.Errorf("the peer is there, and nobody gives way: %+v", a)
	}
	r.setMembership(both, false)
	if got := r.decide(cut, state.EtcdReport{}); got.Turn != state.RaceLast {
		t.Errorf("%+v", got)
	}
	if a := r.answer(false); a.GivesWay != fencerace.Promise {
		t.Errorf("it tells the peer: %+v", a)
	}
	r.behind = func() bool { return false }
	if got := r.decide(cut, state.EtcdReport{}); got.Turn != state.RaceLast {
		t.Errorf("a promise binds, whatever its data are later: %+v", got)
	}
	now += fencerace.Keep
	if got := r.decide(cut, state.EtcdReport{}); got.Turn != state.RaceOrder {
		t.Errorf("not for ever, since the peer may hang: %+v", got)
	}
}

func TestTheReturnOfThePeerEndsWhatItPromised(t *testing.T) {
	r := newRace(true, func() time.Duration { return time.Hour }, logOf(t))
	r.ask = func(context.Context, bool) (state.RaceAnswer, error) {
		return state.RaceAnswer{GivesWay: time.Minute}, nil
	}
	here := state.Known(state.Membership{Ring: 1})
	r.setMembership(here, true)
	r.askOnce(t.Context())
	if r.side.Given != 0 {
		t.Error("a peer that is there has promised nothing")
	}
	r.setMembership(here, false)
	r.askOnce(t.Context())
	if r.side.Given != time.Hour+time.Minute {
		t.Errorf("%s", r.side.Given)
	}
	r.setMembership(here, true)
	r.setMembership(here, false)
	if got := fmt.Sprint(r.side.Given, r.side.Begun); got != "0s 0s" {
		t.Error(got)
	}
}

// TestAStallDoesNotCountWhileEtcdIsDefragmented: and it counts as ever once the limit has passed,
// whoever forgot to remove the note.
func TestAStallDoesNotCountWhileEtcdIsDefragmented(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := 0
		p := newPulse(errLeaderless, func() error { written++; return nil })
		limit := etcdhealth.DefragmentLimit(4 << 30)
		note := state.EtcdDefragmentation{Began: p.uptime(), Until: p.uptime() + limit}
		p.excused = func() bool { return etcdhealth.Defragments(note, p.uptime()) }
		p.state(true)
		go func() { _ = p.run(t.Context()) }()
		for range int(limit / time.Second) {
			if stalled, sick := p.state(true); stalled != 0 || sick != "" {
				t.Fatalf("%s, %q", stalled, sick)
			}
			time.Sleep(time.Second)
		}
		if written != 0 {
			t.Errorf("its disk was tested %d times", written)
		}
		time.Sleep(etcdmember.StallAfter + time.Second)
		if stalled, _ := p.state(true); stalled < etcdmember.StallAfter-time.Second || stalled > etcdmember.StallAfter+2*time.Second {
			t.Errorf("after its limit: %s", stalled)
		}
	})
}
