package haproxy

import (
	"bufio"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/haproxy"
)

// The answer in testdata has the form of haproxy 2.6.12's, with fewer columns;
// test/net/lb asks the real one.
func answer(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/answer.txt")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// serve gives the same answer to every question.
func serve(t *testing.T, text string) (Client, func() []string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var mu sync.Mutex
	var asked []string
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			line, _ := bufio.NewReader(conn).ReadString('\n')
			mu.Lock()
			asked = append(asked, strings.TrimSpace(line))
			mu.Unlock()
			_, _ = conn.Write([]byte(text))
			_ = conn.Close()
		}
	}()
	return Client{Socket: socket}, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func TestARealAnswerIsRead(t *testing.T) {
	client, _ := serve(t, answer(t))
	info, err := client.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (Info{PID: 31558, Fingerprint: "holdfast-0123abcd"}); info != want {
		t.Errorf("got %+v, want %+v", info, want)
	}
	got, err := client.Servers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []apilb.Server{
		{Name: "cp-1:10.98.0.11", Health: apilb.HealthReady, Admin: apilb.AdminReady, Sessions: 7, Since: 25 * time.Second},
		{Name: "cp-2:10.98.0.12", Health: apilb.HealthUnready, Admin: apilb.AdminReady, Since: time.Second},
		{Name: "cp-3:10.98.0.13", Health: apilb.HealthHung, Admin: apilb.AdminReady, Since: time.Second},
		{Name: "cp-4:10.98.0.14", Health: apilb.HealthDead, Admin: apilb.AdminReady, Since: 3 * time.Second},
		{Name: "cp-5:10.98.0.15", Health: apilb.HealthUnchecked, Admin: apilb.AdminReady, Since: 2 * time.Second},
		{Name: "cp-6:10.98.0.16", Health: apilb.HealthReady, Admin: apilb.AdminDrain, Sessions: 2, Since: 9 * time.Second},
		{Name: "cp-7:backup:fd98::17", Health: apilb.HealthDead, Admin: apilb.AdminMaintenance, Since: 8 * time.Second},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestWhatADownServersLastCheckMeans(t *testing.T) {
	for check, want := range map[string]apilb.Health{
		"L4CON": apilb.HealthDead, "L4TOUT": apilb.HealthDead, "HANA": apilb.HealthDead, "SOCKERR": apilb.HealthUnasked,
		"L6TOUT": apilb.HealthHung, "L7TOUT": apilb.HealthHung,
		"L6RSP": apilb.HealthBroken, "L7RSP": apilb.HealthBroken, "L7STS": apilb.HealthBroken,
		"INI": apilb.HealthUnchecked, "L7OK": apilb.HealthUnready, "L7OKC": apilb.HealthUnready,
	} {
		if got := health("DOWN", check); got != want {
			t.Errorf("%s: %s, want %s", check, got, want)
		}
	}
}

func TestAStoppingHaproxyIsNoneToCountOn(t *testing.T) {
	client, _ := serve(t, strings.Replace(answer(t), "Stopping: 0", "Stopping: 1", 1))
	if _, err := client.Servers(t.Context()); err != ErrStopping { //nolint:errorlint // it is returned as it is
		t.Error(err)
	}
	if got := (Source{Client: client}).look(t.Context(), state.Known(state.Balancer{}), new(time.Time)); got.Known {
		t.Error("it is counted on")
	}
}

func TestAnswersThatMakeNoSenseAreErrors(t *testing.T) {
	whole := answer(t)
	for name, text := range map[string]string{
		"nothing": "", "no backend": whole[:strings.Index(whole, "# ")] + "No such proxy.\n",
		"no column": strings.ReplaceAll(whole, "check_status", "x"), "half a row": whole[:len(whole)-20],
		"no number": strings.ReplaceAll(whole, ",25,", ",many,"), "no process": strings.ReplaceAll(whole, "Pid: ", "Pid: x"),
	} {
		client, _ := serve(t, text)
		if servers, err := client.Servers(t.Context()); err == nil {
			t.Errorf("%s: %v", name, servers)
		}
	}
}

func TestEachChangeIsItsCommands(t *testing.T) {
	cp1 := apilb.Backend{Node: "cp-1", Addr: netip.MustParseAddr("10.98.0.11")}
	name := cp1.Server()
	for _, c := range []struct {
		change apilb.Change
		want   []string
		// answer is haproxy's answer to the last command if it succeeds.
		answer string
	}{
		{apilb.Change{Verb: apilb.Drain, Server: name}, []string{"set server api/" + name + " state drain"}, ""},
		{apilb.Change{Verb: apilb.Resume, Server: name}, []string{"enable health api/" + name, "set server api/" + name + " state ready"}, ""},
		{apilb.Change{Verb: apilb.Remove, Server: name}, []string{
			"set server api/" + name + " state maint", "shutdown sessions server api/" + name, "del server api/" + name,
		}, "Server deleted."},
		{apilb.Change{Verb: apilb.Cut, Server: name}, []string{"shutdown sessions server api/" + name}, ""},
		{apilb.Change{Verb: apilb.Add, Server: name, Backend: cp1}, []string{
			"add server api/" + render.ServerLine(render.Backend, cp1, "/ca.crt"), "set server api/" + name + " health down",
			"enable health api/" + name, "enable server api/" + name,
		}, ""},
	} {
		var got, fallback []string
		all := steps(c.change, "/ca.crt")
		for i, s := range all {
			if i < len(all)/2 {
				fallback = append(fallback, s.command)
			} else {
				got = append(got, s.command)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.change.Verb, diff)
		}
		if want, _, _ := strings.Cut(c.want[0], "/"); !strings.HasPrefix(fallback[0], want+"-without-etcd/") {
			t.Errorf("%s begins with %s", c.change.Verb, fallback[0])
		}
		if last := all[len(all)-1].answer; last != c.answer {
			t.Errorf("%s: expects %q", c.change.Verb, last)
		}
	}
}

func TestACommandThatHaproxyRefusesIsAnError(t *testing.T) {
	client, asked := serve(t, "No such server.\n")
	err := client.Apply(t.Context(), apilb.Change{Verb: apilb.Remove, Server: "cp-1:10.98.0.11"}, "")
	if err == nil || !strings.Contains(err.Error(), "remove server cp-1:10.98.0.11: No such server.") {
		t.Error(err)
	}
	// The fallback may lack it: an earlier attempt may have ended between the two.
	if got := asked(); len(got) != 4 || got[3] != "@1;set server api/cp-1:10.98.0.11 state maint" {
		t.Errorf("asked %q", got)
	}
}

func TestAMuteHaproxyHangsSoonerOnAHostWithNothingElseToDo(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "mute")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	for _, c := range []struct {
		busy bool
		want time.Duration
	}{{false, HangTimeout}, {true, Answer}} {
		s := Source{
			Client: Client{Socket: socket}, Busy: func() bool { return c.busy },
			Accepts: func(context.Context) bool { t.Error("asked again"); return true },
		}
		began := time.Now()
		if got := s.look(t.Context(), state.Known(state.Balancer{}), new(time.Time)); got.Known {
			t.Error("it counts as there")
		}
		if took := time.Since(began); took < c.want || took > c.want+time.Second {
			t.Errorf("busy %v: %v, want %v", c.busy, took, c.want)
		}
	}
}

// Seen in the lab: the file of the socket was that of another haproxy, which had ended. What the agent
// knew of API servers stayed as it was for ever.
func TestWhatWasKnownOfADeafHaproxyCountsForAMoment(t *testing.T) {
	before := state.Known(state.Balancer{Backends: map[string]bool{"cp-1": true}})
	s := Source{Client: Client{Socket: filepath.Join(t.TempDir(), "none")}, Accepts: func(context.Context) bool { return true }}
	var deaf time.Time
	if got := s.look(t.Context(), before, &deaf); !got.Known || deaf.IsZero() {
		t.Errorf("it reads its configuration: %+v, deaf since %s", got, deaf)
	}
	deaf = time.Now().Add(-deafFor)
	if got := s.look(t.Context(), before, &deaf); got.Known {
		t.Errorf("nobody has known for %s: %+v", deafFor, got)
	}
	s.Client, _ = serve(t, answer(t))
	if got := s.look(t.Context(), before, &deaf); !got.Known || !deaf.IsZero() {
		t.Errorf("it answers: %+v, deaf since %s", got, deaf)
	}
}

func TestThreadsThatWantToRun(t *testing.T) {
	for text, want := range map[string]int{
		"79.24 69.25 50.59 41/1322 30132\n": 41, "0.00 0.01 0.05 1/80 7": 1, "": 0, "1 2 3": 0, "1 2 3 x/y 4": 0,
	} {
		if got := wanting(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	text, err := os.ReadFile("testdata/answer.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("# svname,status,check_status,scur,lastchg\na,UP,* L7OK,1,1\n")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parseInfo(text)
		servers, err := parseServers(text)
		for _, s := range servers {
			if err != nil || s.Health == "" || s.Admin == "" {
				t.Errorf("half a server: %+v %v", s, err)
			}
		}
	})
}
