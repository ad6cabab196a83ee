package takeover

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
)

// fakePeer is a survivor's peer endpoint. It gives the wanted facts, and
// answers each message of Raft with a status.
func fakePeer(t *testing.T, version string, raft int, members ...Member) Request {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/members", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Etcd-Cluster-ID", "1")
		_ = json.NewEncoder(w).Encode(members)
	})
	mux.HandleFunc("/version", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"etcdserver": version})
	})
	mux.HandleFunc("/raft", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(raft) })
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return Request{
		Evidence: "test", Cluster: 1, Target: 0xa, Survivor: 0xb, PeerURL: server.URL,
		ClientURL: "http://" + nobody, DeadlineMS: 400, PeerProbeMS: 20,
	}
}

// nobody is an address at which nobody listens: a port that no test gets.
const nobody = "127.0.0.1:1"

func TestRunEndsWithAReason(t *testing.T) {
	gone := Member{ID: 0xa, PeerURLs: []string{"http://" + nobody}}
	listening, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listening.Close() }()
	lives := Member{ID: 0xa, PeerURLs: []string{"http://" + listening.Addr().String()}}
	for name, c := range map[string]struct {
		version string
		raft    int
		target  Member
		want    Outcome
		reason  string
	}{
		"a survivor that says nothing is waited for":     {"3.6.14", http.StatusNoContent, gone, Unfinished, NoLeader},
		"another member answers":                         {"3.6.14", http.StatusForbidden, gone, Refused, SurvivorMismatch},
		"the fenced member lives":                        {"3.6.14", http.StatusNoContent, lives, Refused, TargetAlive},
		"another minor is not spoken to":                 {"3.5.20", http.StatusNoContent, gone, Refused, VersionMismatch},
		"an address that is no URL is no sign of life":   {"3.6.14", http.StatusNoContent, Member{ID: 0xa, PeerURLs: []string{"::"}}, Unfinished, NoLeader},
		"a member that never told its address is silent": {"3.6.14", http.StatusNoContent, Member{ID: 0xa}, Unfinished, NoLeader},
	} {
		t.Run(name, func(t *testing.T) {
			req := fakePeer(t, c.version, c.raft, c.target, Member{ID: 0xb})
			r := Run(t.Context(), req, zap.NewNop())
			if r.Outcome != c.want || r.Reason != c.reason || r.Evidence != "test" {
				t.Errorf("got %+v, want %s: %s", r, c.want, c.reason)
			}
		})
	}
}

func TestNothingToDoIsSaidOnlyWhereWritesWork(t *testing.T) {
	r := Run(t.Context(), fakePeer(t, "3.6.14", http.StatusNoContent, Member{ID: 0xb}), zap.NewNop())
	if r.Outcome != Unfinished || r.Reason != NotConfirmed || !strings.Contains(r.Detail, "settle") {
		t.Errorf("got %+v", r)
	}
}

func TestASignalEndsIt(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	req := fakePeer(t, "3.6.14", http.StatusNoContent, Member{ID: 0xa}, Member{ID: 0xb})
	if r := Run(ctx, req, zap.NewNop()); r.Outcome != Unfinished || r.Reason != Interrupted {
		t.Errorf("got %+v", r)
	}
}
