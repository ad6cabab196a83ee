package takeover

import (
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	two := []Member{{ID: 0xa}, {ID: 0xb}}
	for name, c := range map[string]struct {
		change func(*Request, *View)
		want   string
		end    Outcome
	}{
		"two voters, one of them fenced":      {func(*Request, *View) {}, "", ""},
		"a learner beside them does not vote": {func(_ *Request, v *View) { v.Members = append(two, Member{ID: 0xc, Learner: true}) }, "", ""},
		"another patch of the same minor":     {func(_ *Request, v *View) { v.Version = "3.6.20" }, "", ""},
		"the fenced one is gone already":      {func(_ *Request, v *View) { v.Members = two[1:] }, "", NothingToDo},
		"the fenced one is gone, and another voter there": {
			func(_ *Request, v *View) { v.Members = []Member{{ID: 0xb}, {ID: 0xc}} }, NotTwoVoters, Refused,
		},
		"three voters":                   {func(_ *Request, v *View) { v.Members = append(two, Member{ID: 0xc}) }, NotTwoVoters, Refused},
		"the fenced one has no vote":     {func(_ *Request, v *View) { v.Members = []Member{{ID: 0xa, Learner: true}, {ID: 0xb}} }, NotTwoVoters, Refused},
		"the survivor is a learner":      {func(_ *Request, v *View) { v.Members = []Member{{ID: 0xa}, {ID: 0xb, Learner: true}} }, SurvivorNotVoter, Refused},
		"the survivor is no member":      {func(r *Request, _ *View) { r.Survivor = 0xd }, SurvivorNotVoter, Refused},
		"the survivor is the fenced one": {func(r *Request, _ *View) { r.Target = 0xb }, TargetIsSurvivor, Refused},
		"another cluster":                {func(r *Request, _ *View) { r.Cluster = 2 }, ClusterMismatch, Refused},
		"another minor of etcd":          {func(_ *Request, v *View) { v.Version = "3.7.0" }, VersionMismatch, Refused},
		"an etcd that names no version":  {func(_ *Request, v *View) { v.Version = "" }, VersionMismatch, Refused},
	} {
		t.Run(name, func(t *testing.T) {
			req := Request{Cluster: 1, Target: 0xa, Survivor: 0xb}
			view := View{Cluster: 1, Version: "3.6.14", Members: append([]Member(nil), two...)}
			c.change(&req, &view)
			var got stop
			if s := judge(req, view, "3.6.14"); s != nil {
				got = *s
			}
			if got.reason != c.want || got.outcome != c.end {
				t.Errorf("got %+v, want %q %q", got, c.end, c.want)
			}
		})
	}
}

func TestReadListsEveryMistake(t *testing.T) {
	_, err := Read(strings.NewReader(`{"peerURL": "https://192.0.2.1:2380", "clientURL": "ftp://x:1", "deadlineMS": -1}`))
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, field := range []string{"evidence:", "cluster:", "target:", "survivor:", "tls:", "clientURL:", "deadlineMS:"} {
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%q is missing in:\n%v", field, err)
		}
	}
}

func TestRead(t *testing.T) {
	whole := `{"evidence": "e", "cluster": "cdf818194e3a8c32", "target": "8211f1d0f64f3269", "survivor": "91bc3c398fb3c146",
		"peerURL": "https://[2001:db8::1]:2380", "clientURL": "http://127.0.0.1:2379/", "tls": {"ca": "a", "cert": "b", "key": "c"}}`
	req, err := Read(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if req.DeadlineMS != 30000 || req.PeerProbeMS != 50 || req.ClientTLS != req.TLS || req.ClientURL != "http://127.0.0.1:2379" || req.Target.String() != "8211f1d0f64f3269" {
		t.Errorf("read %+v", req)
	}
	for name, text := range map[string]string{
		"an unknown field": strings.Replace(whole, `"evidence"`, `"proof"`, 1),
		"two requests":     whole + whole,
		"no identifier":    strings.Replace(whole, "8211f1d0f64f3269", "0x8211", 1),
		"zero":             strings.Replace(whole, "8211f1d0f64f3269", "0", 1),
		"no port":          strings.Replace(whole, ":2379/", "", 1),
		"a path":           strings.Replace(whole, ":2379/", ":2379/v3", 1),
		"nothing":          "",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for outcome, want := range map[Outcome]int{Done: 0, NothingToDo: 0, Refused: 3, Unfinished: 4, "": 1} {
		if got := (Result{Outcome: outcome}).ExitCode(); got != want {
			t.Errorf("%q ends with %d, want %d", outcome, got, want)
		}
	}
}
