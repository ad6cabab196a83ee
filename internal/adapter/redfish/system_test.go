package redfish

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// whole is a system with the fields that services report.
const whole = `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","UUID":"` + testUUID + `","SerialNumber":"` + testSerial + `","PowerState":"On",` +
	`"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Reset","ResetType@Redfish.AllowableValues":["On","ForceOff"]}}%}`

// service returns a controller with the given system, which records how it was
// asked to reset.
func service(t *testing.T, system string, asked *[]string) Endpoint {
	t.Helper()
	return answers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			body, _ := io.ReadAll(r.Body)
			*asked = append(*asked, r.URL.Path+" "+string(body))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, system)
	})
}

// TestOneOddFieldDoesNotMakeAControllerUnusable has fields that real firmware
// has and the standard does not allow: each of them made the library refuse the
// system.
func TestOneOddFieldDoesNotMakeAControllerUnusable(t *testing.T) {
	for _, odd := range []string{
		`"MemorySummary":{"TotalSystemMemoryGiB":"64"}`, `"ProcessorSummary":{"Count":"2"}`, `"ProcessorSummary":{"Count":2.5}`,
		`"Status":"OK"`, `"HostingRoles":"ComputerSystem"`, `"IndicatorLED":0`, `"AssetTag":12345`, `"PCIeDevices":{"@odata.id":"/x"}`,
		`"TrustedModules":{"Status":null}`, `"Boot":[]`, `"Links":[]`, `"Name":7`, `"Oem":"none"`, `"BootProgress":{"LastBootTimeSeconds":114.0}`,
		`"SKU":null`, `"Manufacturer":{}`, `"Model":[]`, `"@odata.type":1`, `"Actions@odata.x":[]`,
	} {
		var asked []string
		e := service(t, strings.Replace(whole, "%", ","+odd, 1), &asked)
		e.UUID = testUUID
		c, err := Open(t.Context(), e)
		if err != nil {
			t.Errorf("%s: %v", odd, err)
			continue
		}
		if err := c.AskOff(t.Context()); err != nil || strings.Join(asked, ";") != `/redfish/v1/Systems/1/Reset {"ResetType":"ForceOff"}` {
			t.Errorf("%s: asked %q, %v", odd, asked, err)
		}
		c.Close()
	}
}

// TestAnOddPowerStateIsNotOff has values that a lax parser could take for Off.
func TestAnOddPowerStateIsNotOff(t *testing.T) {
	for _, odd := range []string{`"off"`, `"OFF"`, `"Off "`, `["Off"]`, `{"Off":"Off"}`, `0`, `false`, `null`, `""`} {
		e := service(t, strings.Replace(strings.Replace(whole, `"On",`, odd+",", 1), "%", "", 1), nil)
		c := open(t, e)
		if err := c.ConfirmOff(t.Context()); ReasonOf(err) != NotOff {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

func TestWhatIsNoSystemIsNotTakenForOne(t *testing.T) {
	for _, odd := range []string{`null`, `[]`, `"Off"`, `{}`, `{"PowerState":"Off"}`, ``, `{"Id":"1"`, `<html>Off</html>`} {
		e := service(t, odd, nil)
		if _, err := Open(t.Context(), e); ReasonOf(err) != Protocol {
			t.Errorf("%s: %v", odd, err)
		}
	}
}

func TestTheActionIsTakenFromTheAnswer(t *testing.T) {
	for name, c := range map[string]struct{ actions, want string }{
		"a path without an id":   {`{"target":"/redfish/v1/Systems/Actions/ComputerSystem.Reset"}`, "/redfish/v1/Systems/Actions/ComputerSystem.Reset"},
		"a whole address":        {`{"target":"https://other.invalid/redfish/v1/Systems/1/Reset"}`, "/redfish/v1/Systems/1/Reset"},
		"without first slash":    {`{"target":"redfish/v1/Reset"}`, "/redfish/v1/Reset"},
		"types that are no list": {`{"target":"/r","ResetType@Redfish.AllowableValues":"ForceOff"}`, "/r"},
		"types that are fused":   {`{"target":"/r","ResetType@Redfish.AllowableValues":["On","ForceOffForceRestart",7]}`, "/r"},
		"an empty list":          {`{"target":"/r","ResetType@Redfish.AllowableValues":[]}`, "/r"},
		"an odd ActionInfo":      {`{"target":"/r","@Redfish.ActionInfo":{"@odata.id":"/info"}}`, "/r"},
	} {
		var asked []string
		before, _, _ := strings.Cut(whole, `{"#Computer`)
		e := service(t, before+`{"#ComputerSystem.Reset":`+c.actions+`}}`, &asked)
		client := open(t, e)
		if err := client.Off(t.Context()); err != nil || len(asked) != 1 || !strings.HasPrefix(asked[0], c.want+" ") {
			t.Errorf("%s: asked %q, %v", name, asked, err)
		}
		if _, err := client.ReadSystem(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestASystemWithoutAResetActionIsPassedOver(t *testing.T) {
	baseboard := `{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0","Id":"HGX_Baseboard_0","SerialNumber":"` + testSerial + `","PowerState":"On"}`
	e := answers(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case systemsPath:
			_, _ = io.WriteString(w, `{"@odata.count":9,"Members":[{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0"},{"@odata.id":"/redfish/v1/Systems/System_0"}]}`)
		case systemsPath + "/HGX_Baseboard_0":
			_, _ = io.WriteString(w, baseboard)
		default:
			_, _ = io.WriteString(w, strings.Replace(whole, "%", "", 1))
		}
	})
	e.Address.System, e.Serial = "", testSerial
	if got := open(t, e).SystemPath(); got != systemsPath+"/System_0" {
		t.Errorf("found %s", got)
	}
}

func TestTheStatusCountsWhereTheAnswerBreaksOff(t *testing.T) {
	e := answers(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"error":`)
	})
	if _, err := Open(t.Context(), e); ReasonOf(err) != Credentials {
		t.Errorf("error %v", err)
	}
}

// TestAStateIsNamedToWhoWantsItNamed plays AMI's family, which refuses a
// request that names no state, and iDRAC10, which refuses one that names a
// state.
func TestAStateIsNamedToWhoWantsItNamed(t *testing.T) {
	for name, c := range map[string]struct {
		refuse func(match string) int
		want   string
	}{
		"428 without":             {func(m string) int { return map[bool]int{true: 428}[m == ""] }, `|W/"1"`},
		"412 without":             {func(m string) int { return map[bool]int{true: 412}[m == ""] }, `|W/"1"`},
		"412 with, as of iDRAC10": {func(m string) int { return map[bool]int{true: 412}[m != ""] }, ``},
	} {
		var matches []string
		e := answers(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				w.Header().Set("ETag", `W/"1"`)
				_, _ = io.WriteString(w, strings.Replace(whole, "%", "", 1))
				return
			}
			match := r.Header.Get("If-Match")
			matches = append(matches, match)
			if code := c.refuse(match); code != 0 {
				w.WriteHeader(code)
			}
		})
		if err := open(t, e).AskOff(t.Context()); err != nil || strings.Join(matches, "|") != c.want {
			t.Errorf("%s: named %q, %v", name, matches, err)
		}
	}
}

// TestAnOrderStaysOneWhereItIsRedirected: 308 keeps the method, but 301 would
// turn the order into a read, whose answer means nothing.
func TestAnOrderStaysOneWhereItIsRedirected(t *testing.T) {
	for code, ok := range map[int]bool{http.StatusPermanentRedirect: true, http.StatusTemporaryRedirect: true, http.StatusMovedPermanently: false, http.StatusFound: false} {
		var got []string
		e := answers(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/") {
				http.Redirect(w, r, r.URL.Path+"/", code)
				return
			}
			if body, _ := io.ReadAll(r.Body); len(body) > 0 {
				got = append(got, string(body))
			}
			_, _ = io.WriteString(w, strings.Replace(whole, "%", "", 1))
		})
		err := open(t, e).AskOff(t.Context())
		if (err == nil) != ok || (len(got) == 1) != ok {
			t.Errorf("%d: %q, %v", code, got, err)
		}
	}
}
