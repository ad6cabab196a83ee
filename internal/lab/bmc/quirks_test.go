package bmc

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the table of README.md")

func TestEveryQuirkIsDescribedUnderItsJSONName(t *testing.T) {
	var fields []string
	for field := range reflect.TypeFor[Quirks]().Fields() {
		fields = append(fields, strings.TrimSuffix(field.Tag.Get("json"), ",omitempty"))
	}
	var docs []string
	for _, d := range QuirkDocs() {
		docs = append(docs, d.Name)
		if d.Doc == "" || d.Values == "" || d.Default == "" {
			t.Errorf("%s is not described: %+v", d.Name, d)
		}
	}
	if diff := cmp.Diff(fields, docs); diff != "" {
		t.Errorf("fields of Quirks (-) and descriptions (+):\n%s", diff)
	}
}

func TestSettingByNameIsSettingByJSON(t *testing.T) {
	for _, k := range quirkTable {
		value := map[string]string{"true, false": "true", "a duration": "7s", "a number": "5", "a text": "new"}[k.values()]
		if value == "" {
			value = k.allowed[0]
		}
		var byName, byJSON Quirks
		if err := byName.Set(k.name, value); err != nil {
			t.Fatal(err)
		}
		if byName == (Quirks{}) {
			t.Errorf("%s=%s changes nothing", k.name, value)
		}
		data, err := json.Marshal(byName)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &byJSON); err != nil || byJSON != byName {
			t.Errorf("%s becomes %+v, error %v", data, byJSON, err)
		}
		if err := byName.Clear(k.name); err != nil || byName != (Quirks{}) {
			t.Errorf("%s is not cleared: %+v, error %v", k.name, byName, err)
		}
	}
}

func TestMistakesInQuirksSayWhatIsRight(t *testing.T) {
	cases := []struct{ name, value, want string }{
		{"slow-of", "1s", "slow-off"},
		{"slow-off", "fast", "5s"},
		{"slow-off", "-1s", "5s"},
		{"mute", "perhaps", "true or false"},
		{"says", "Dead", "PoweringOff"},
		{"certificate", "", "expired"},
		{"auth-status", "200", "401"},
		{"password", "", "required"},
		{"extra-systems", "-1", "from 0"},
	}
	for _, c := range cases {
		var q Quirks
		err := q.Set(c.name, c.value)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%s: error %v does not say %q", c.name, c.value, err, c.want)
		}
		if q != (Quirks{}) {
			t.Errorf("%s=%s changed %+v", c.name, c.value, q)
		}
	}
	if err := new(Quirks).Clear("nothing"); err == nil {
		t.Error("an unknown quirk can be cleared")
	}
}

// shownAfter asks for a reset, waits, and returns the status of the request
// and the power state shown.
func shownAfter(t *testing.T, s *Server, r ResetType, wait time.Duration) (int, any) {
	t.Helper()
	status := resetRequestOf(r).send(t, s).StatusCode
	time.Sleep(wait)
	synctest.Wait()
	body := fetch(t, s, s.SystemPath())
	shown, ok := body["PowerState"]
	if !ok {
		shown = "absent"
	}
	return status, shown
}

func TestQuirksOfPower(t *testing.T) {
	cases := []struct {
		name   string
		quirks Quirks
		on     bool
		reset  ResetType
		wait   time.Duration
		status int
		shown  any
		alive  bool
	}{
		{"none, off", Quirks{}, true, ResetForceOff, 0, 204, "Off", false},
		{"none, on", Quirks{}, false, ResetOn, 0, 204, "On", false},
		{"none, on after POST", Quirks{}, false, ResetOn, DefaultPOSTDelay, 204, "On", true},
		{"conflict-when-off", Quirks{ConflictWhenOff: true}, false, ResetForceOff, 0, 409, "Off", false},
		{"conflict-when-on", Quirks{ConflictWhenOn: true}, true, ResetOn, 0, 409, "On", true},
		{"accept-and-ignore", Quirks{AcceptAndIgnore: true}, true, ResetForceOff, time.Hour, 202, "On", true},
		{"error-yet-acts", Quirks{ErrorYetActs: true}, true, ResetForceOff, 0, 500, "Off", false},
		{"powering-off-sticks", Quirks{PoweringOffSticks: true}, true, ResetForceOff, time.Hour, 204, "PoweringOff", true},
		{"slow-off, before", Quirks{SlowOff: Duration(8 * time.Second)}, true, ResetForceOff, 7 * time.Second, 204, "PoweringOff", true},
		{"slow-off, after", Quirks{SlowOff: Duration(8 * time.Second)}, true, ResetForceOff, 8 * time.Second, 204, "Off", false},
		{"powering-on, in POST", Quirks{PoweringOn: true}, false, ResetOn, time.Second, 204, "PoweringOn", false},
		{"powering-on, booted", Quirks{PoweringOn: true}, false, ResetOn, DefaultPOSTDelay, 204, "On", true},
		{"says Off of a living machine", Quirks{Says: "Off"}, true, ResetOn, 0, 204, "Off", true},
		{"says On of a dead machine", Quirks{Says: "On"}, true, ResetForceOff, 0, 204, "On", false},
		{"says null", Quirks{Says: SaysNull}, true, ResetOn, 0, 204, nil, true},
		{"says nothing", Quirks{Says: SaysNothing}, true, ResetOn, 0, 204, "absent", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fakeMachine{on: c.on}
				s := newServer(t, m)
				s.SetQuirks(c.quirks)
				status, shown := shownAfter(t, s, c.reset, c.wait)
				if status != c.status || shown != c.shown || m.isOn() != c.alive {
					t.Errorf("status %d, shows %v, alive %v; want %d, %v, %v", status, shown, m.isOn(), c.status, c.shown, c.alive)
				}
			})
		})
	}
}

func TestQuirkActionInfoOnly(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	s.SetQuirks(Quirks{ActionInfoOnly: true})
	action := fetch(t, s, s.SystemPath())["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)
	if _, ok := action["ResetType@Redfish.AllowableValues"]; ok {
		t.Error("the reset types are listed beside the action")
	}
	info := fetch(t, s, action["@Redfish.ActionInfo"].(string))
	parameter := info["Parameters"].([]any)[0].(map[string]any)
	if parameter["Name"] != "ResetType" || len(parameter["AllowableValues"].([]any)) != len(ResetTypes()) {
		t.Errorf("ActionInfo %v", parameter)
	}
}

func TestQuirkExtraSystemsPutsOursNotLast(t *testing.T) {
	for extra := 1; extra <= 3; extra++ {
		m := &fakeMachine{on: true}
		s := newServer(t, m)
		s.SetQuirks(Quirks{ExtraSystems: extra})
		members := fetch(t, s, systemsPath)["Members"].([]any)
		last := members[len(members)-1].(map[string]any)["@odata.id"].(string)
		if len(members) != extra+1 || last == s.SystemPath() {
			t.Fatalf("extra %d: members %v", extra, members)
		}
		before := fetch(t, s, last)
		resp := request{method: http.MethodPost, path: last + resetAction, body: `{"ResetType":"ForceOff"}`}.send(t, s)
		afterwards := fetch(t, s, last)
		if before["UUID"] == testUUID || before["PowerState"] != "On" || resp.StatusCode != 204 || afterwards["PowerState"] != "Off" || !m.isOn() {
			t.Errorf("the neighbour was %v, answered %s and is %v; ours on: %v", before["PowerState"], resp.Status, afterwards["PowerState"], m.isOn())
		}
	}
}

func TestQuirkOtherIdentity(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	s.SetQuirks(Quirks{OtherIdentity: true})
	body := fetch(t, s, s.SystemPath())
	if body["UUID"] == testUUID || body["SerialNumber"] == testSerial || len(body["UUID"].(string)) != len(testUUID) {
		t.Errorf("identity %v %v", body["UUID"], body["SerialNumber"])
	}
}

func TestQuirksOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeMachine{})
		s.SetQuirks(Quirks{SessionsHeld: 7, SessionTimeout: Duration(time.Minute)})
		if resp := login(t, s); resp.StatusCode != http.StatusCreated {
			t.Fatalf("the last free session: %s", resp.Status)
		}
		if resp := login(t, s); resp.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("sessions-held: %s", resp.Status)
		}
		time.Sleep(time.Minute)
		if resp := login(t, s); resp.StatusCode != http.StatusCreated {
			t.Fatalf("session-timeout: %s", resp.Status)
		}
		if basic := (request{path: systemsPath}).send(t, s); basic.StatusCode != http.StatusOK {
			t.Errorf("Basic authentication needs a session: %s", basic.Status)
		}
	})
}

func TestQuirkAuthStatus(t *testing.T) {
	for _, status := range []int{401, 403, 500, 503} {
		s := newServer(t, &fakeMachine{})
		s.SetQuirks(Quirks{AuthStatus: status})
		got := []int{
			request{path: systemsPath}.send(t, s).StatusCode, login(t, s).StatusCode,
			request{path: rootPath, anonymous: true}.send(t, s).StatusCode,
		}
		if diff := cmp.Diff([]int{status, status, 200}, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestQuirkPassword changes the password of an account without the knowledge of
// its clients.
func TestQuirkPassword(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	s.SetQuirks(Quirks{Password: "another"})
	if s.credentials(s.cfg.Username, s.cfg.Password) || !s.credentials(s.cfg.Username, "another") {
		t.Error("the old password works, or the new one does not")
	}
	got := []int{request{path: systemsPath}.send(t, s).StatusCode, login(t, s).StatusCode}
	if diff := cmp.Diff([]int{401, 401}, got); diff != "" {
		t.Error(diff)
	}
	s.SetQuirks(Quirks{})
	if got := (request{path: systemsPath}).send(t, s).StatusCode; got != http.StatusOK {
		t.Errorf("taken back, the old one is answered with %d", got)
	}
}

func TestQuirkDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeMachine{})
		s.SetQuirks(Quirks{Delay: Duration(3 * time.Second)})
		began := time.Now()
		fetch(t, s, rootPath)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("answered after %s", took)
		}
	})
}

const tableBegin, tableEnd = "<!-- quirks: go test ./internal/lab/bmc -run README -update -->\n", "<!-- end of quirks -->\n"

func TestREADMEHasTheTableOfQuirks(t *testing.T) {
	var table strings.Builder
	table.WriteString("| quirk | what the controller does | values | default |\n|---|---|---|---|\n")
	for _, d := range QuirkDocs() {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", d.Name, d.Doc, d.Values, d.Default)
	}
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), tableBegin)
	_, foot, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatal("README.md lacks the marks of the table")
	}
	want := head + tableBegin + table.String() + tableEnd + foot
	if want == string(data) {
		return
	}
	if !*update {
		t.Fatal("the table of README.md is not that of QuirkDocs: run with -update")
	}
	if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
