package bmc

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	testUser     = "admin"
	testPassword = "correct horse"
	testUUID     = "4c4c4544-0051-3310-8051-b7c04f4e3132"
	testSerial   = "HF0001"
)

func newServer(t *testing.T, m Machine) *Server {
	t.Helper()
	s, err := New(Config{
		Name: "cp-0", Username: testUser, Password: testPassword,
		UUID: testUUID, Serial: testSerial, POSTDelay: DefaultPOSTDelay,
	}, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

type request struct {
	method, path, body string
	header             map[string]string
	anonymous          bool
}

func (r request) send(t *testing.T, s *Server) *http.Response {
	t.Helper()
	method := r.method
	if method == "" {
		method = http.MethodGet
	}
	req := httptest.NewRequestWithContext(t.Context(), method, r.path, strings.NewReader(r.body))
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if !r.anonymous {
		req.SetBasicAuth(testUser, testPassword)
	}
	for k, v := range r.header {
		req.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, req)
	return w.Result()
}

// fetch returns the body of a GET that must succeed.
func fetch(t *testing.T, s *Server, path string) map[string]any {
	t.Helper()
	resp := request{path: path}.send(t, s)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s", path, resp.Status)
	}
	return parse(t, resp)
}

func parse(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	var body map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		t.Fatal(err)
	}
	return body
}

func resetRequestOf(t ResetType) request {
	return request{method: http.MethodPost, path: systemsPath + "/1" + resetAction, body: `{"ResetType":"` + string(t) + `"}`}
}

func TestEveryLinkOfTheTreeLeadsSomewhere(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	s.SetQuirks(Quirks{ExtraSystems: 2})
	visited := map[string]bool{}
	var visit func(path string)
	var follow func(v any)
	follow = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				follow(e)
			}
		case map[string]any:
			for key, e := range v {
				if path, ok := e.(string); ok && (key == "@odata.id" || key == "@Redfish.ActionInfo") {
					visit(path)
				}
				follow(e)
			}
		}
	}
	visit = func(path string) {
		if visited[path] {
			return
		}
		visited[path] = true
		follow(fetch(t, s, path))
	}
	visit(rootPath)
	for _, must := range []string{systemsPath, s.SystemPath(), s.SystemPath() + resetInfo, chassisPath + "/1", managerPath, nicsPath + "/eth0", sessionsPath, systemsPath + "/neighbour-2"} {
		if !visited[must] {
			t.Errorf("%s cannot be reached from %s", must, rootPath)
		}
	}
}

func TestSystemShowsTheMachinesIdentity(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	body := fetch(t, s, s.SystemPath())
	got := []any{body["UUID"], body["SerialNumber"], body["HostName"], body["PowerState"]}
	if diff := cmp.Diff([]any{testUUID, testSerial, "cp-0", "On"}, got); diff != "" {
		t.Error(diff)
	}
	action := body["Actions"].(map[string]any)["#ComputerSystem.Reset"].(map[string]any)
	if action["target"] != s.SystemPath()+resetAction || len(action["ResetType@Redfish.AllowableValues"].([]any)) != len(ResetTypes()) {
		t.Errorf("reset action %v", action)
	}
}

func TestAnswersToRequestsThatAreWrong(t *testing.T) {
	post := func(path, body string) request { return request{method: http.MethodPost, path: path, body: body} }
	action := systemsPath + "/1" + resetAction
	cases := []struct {
		name string
		req  request
		want int
		id   string
	}{
		{"nobody", request{path: systemsPath, anonymous: true}, 401, "ResourceAtUriUnauthorized"},
		{"wrong password", request{path: systemsPath, anonymous: true, header: map[string]string{"Authorization": "Basic YWRtaW46d3Jvbmc="}}, 401, "ResourceAtUriUnauthorized"},
		{"wrong token", request{path: systemsPath, anonymous: true, header: map[string]string{"X-Auth-Token": "x"}}, 401, "ResourceAtUriUnauthorized"},
		{"nobody asks for what is not there", request{path: systemsPath + "/2", anonymous: true}, 401, "ResourceAtUriUnauthorized"},
		{"a system that is not there", request{path: systemsPath + "/2"}, 404, "ResourceMissingAtURI"},
		{"a path below a system", request{path: systemsPath + "/1/Bios"}, 404, "ResourceMissingAtURI"},
		{"a session that is not there", request{path: sessionsPath + "/7"}, 404, "ResourceMissingAtURI"},
		{"outside the tree", request{path: "/index.html"}, 404, "ResourceMissingAtURI"},
		{"PATCH of the system", request{method: http.MethodPatch, path: systemsPath + "/1", body: "{}"}, 405, "OperationNotAllowed"},
		{"GET of an action", request{path: action}, 405, "OperationNotAllowed"},
		{"DELETE of the root", request{method: http.MethodDelete, path: rootPath}, 405, "OperationNotAllowed"},
		{"no JSON", post(action, "{"), 400, "MalformedJSON"},
		{"no ResetType", post(action, "{}"), 400, "ActionParameterMissing"},
		{"unknown ResetType", post(action, `{"ResetType":"Explode"}`), 400, "ActionParameterValueNotInList"},
		{"no media type", request{method: http.MethodPost, path: action, body: "{}", header: map[string]string{"Content-Type": "text/plain"}}, 415, "UnsupportedMediaType"},
		{"too large", post(action, strings.Repeat(" ", maxBody+1)), 413, "PayloadTooLarge"},
		{"another OData version", request{path: rootPath, header: map[string]string{"OData-Version": "3.0"}}, 412, "PreconditionFailed"},
		{"login with a wrong password", request{method: http.MethodPost, path: sessionsPath, body: `{"UserName":"admin","Password":"x"}`, anonymous: true}, 401, "ResourceAtUriUnauthorized"},
	}
	s := newServer(t, &fakeMachine{on: true})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			resp := c.req.send(t, s)
			if resp.StatusCode != c.want {
				t.Fatalf("status %d, want %d", resp.StatusCode, c.want)
			}
			info := parse(t, resp)["error"].(map[string]any)["@Message.ExtendedInfo"].([]any)[0].(map[string]any)
			if info["MessageId"] != registry+c.id || info["Message"] == "" || info["Resolution"] == "" {
				t.Errorf("error body %v, want message %s", info, c.id)
			}
			if c.want == 405 && resp.Header.Get("Allow") == "" {
				t.Error("no header Allow")
			}
			if c.want == 401 && resp.Header.Get("WWW-Authenticate") == "" {
				t.Error("no header WWW-Authenticate")
			}
		})
	}
}

func TestWhatAnybodyMayRead(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	for _, path := range []string{"/redfish", "/redfish/", "/redfish/v1", "/redfish/v1/", "/redfish/v1/odata", "/redfish/v1/$metadata"} {
		resp := request{path: path, anonymous: true}.send(t, s)
		if resp.StatusCode != http.StatusOK || resp.Header.Get("OData-Version") != "4.0" {
			t.Errorf("GET %s: %s, headers %v", path, resp.Status, resp.Header)
		}
	}
}

func TestETagsAndHead(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	first := request{path: s.SystemPath()}.send(t, s)
	tag := first.Header.Get("ETag")
	again := request{path: s.SystemPath(), header: map[string]string{"If-None-Match": tag}}.send(t, s)
	if tag == "" || again.StatusCode != http.StatusNotModified {
		t.Errorf("ETag %q, then %s", tag, again.Status)
	}
	head := request{method: http.MethodHead, path: s.SystemPath()}.send(t, s)
	body, err := io.ReadAll(head.Body)
	if err != nil || head.StatusCode != http.StatusOK || len(body) != 0 || head.Header.Get("ETag") != tag {
		t.Errorf("HEAD: %s, %d bytes, ETag %q, error %v", head.Status, len(body), head.Header.Get("ETag"), err)
	}
}

func login(t *testing.T, s *Server) *http.Response {
	t.Helper()
	return request{
		method: http.MethodPost, path: sessionsPath, anonymous: true,
		body: `{"UserName":"` + testUser + `","Password":"` + testPassword + `"}`,
	}.send(t, s)
}

func withToken(token, method, path string) request {
	return request{method: method, path: path, anonymous: true, header: map[string]string{"X-Auth-Token": token}}
}

func TestSessionLivesUntilItIsDeletedOrUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, &fakeMachine{on: true})
		opened := login(t, s)
		token, path := opened.Header.Get("X-Auth-Token"), opened.Header.Get("Location")
		if opened.StatusCode != http.StatusCreated || token == "" || path == "" {
			t.Fatalf("login: %s, headers %v", opened.Status, opened.Header)
		}
		for range 3 { // each use keeps it open
			time.Sleep(defaultSessionTimeout - time.Second)
			if resp := withToken(token, http.MethodGet, path).send(t, s); resp.StatusCode != http.StatusOK {
				t.Fatalf("use: %s", resp.Status)
			}
		}
		if resp := withToken(token, http.MethodDelete, path).send(t, s); resp.StatusCode != http.StatusNoContent {
			t.Fatalf("logout: %s", resp.Status)
		}
		if resp := withToken(token, http.MethodGet, systemsPath).send(t, s); resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("use after logout: %s", resp.Status)
		}
		token = login(t, s).Header.Get("X-Auth-Token")
		time.Sleep(defaultSessionTimeout)
		if resp := withToken(token, http.MethodGet, systemsPath).send(t, s); resp.StatusCode != http.StatusUnauthorized {
			t.Fatalf("use after timeout: %s", resp.Status)
		}
	})
}

func TestSessionsAreLimited(t *testing.T) {
	s := newServer(t, &fakeMachine{})
	for n := range sessionLimit {
		if resp := login(t, s); resp.StatusCode != http.StatusCreated {
			t.Fatalf("session %d: %s", n+1, resp.Status)
		}
	}
	if resp := login(t, s); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one session too many: %s", resp.Status)
	}
	members := fetch(t, s, sessionsPath)["Members"].([]any)
	if len(members) != sessionLimit {
		t.Errorf("%d sessions listed", len(members))
	}
}

func TestResetsAreRemembered(t *testing.T) {
	s := newServer(t, &fakeMachine{on: true})
	for range resetsKept {
		resetRequestOf(ResetNmi).send(t, s)
	}
	resetRequestOf(ResetOn).send(t, s)
	resets := s.Resets()
	last := resets[len(resets)-1]
	if len(resets) != resetsKept || last.Type != ResetOn || last.Status != http.StatusNoContent || last.From == "" {
		t.Errorf("%d resets, the last %+v", len(resets), last)
	}
}

func TestEveryResetTypeIsAcceptedOverHTTP(t *testing.T) {
	for _, r := range ResetTypes() {
		s := newServer(t, &fakeMachine{on: true})
		if resp := resetRequestOf(r).send(t, s); resp.StatusCode != http.StatusNoContent {
			t.Errorf("%s: %s", r, resp.Status)
		}
	}
	if !slices.Contains(ResetTypes(), ResetNmi) {
		t.Error("Nmi is not offered")
	}
}
