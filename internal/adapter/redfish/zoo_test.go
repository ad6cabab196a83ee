package redfish

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/lab/bmc/zootest"
)

// TestEachKindOfBMCIsUnderstood finds the system of each file below
// testdata/zoo, compares it with its host, and switches it off, twice.
func TestEachKindOfBMCIsUnderstood(t *testing.T) {
	for _, b := range zootest.Load(t, "testdata/zoo") {
		t.Run(b.Name, func(t *testing.T) {
			u, err := url.Parse(b.Serve(t))
			if err != nil || b.Source == "" {
				t.Fatalf("%v, source %q", err, b.Source)
			}
			e := Endpoint{
				Address: addressOf(u.Host, ""), Username: testUser, Password: testPassword,
				LegacyTLS: b.Legacy(), UUID: b.Host.UUID, Serial: b.Host.Serial, Timeout: 5 * time.Second,
			}
			e = pinnedNow(t, e)
			refusedFirst(t, b, e)
			e.SystemID = b.SystemID
			c := open(t, e)
			if c.SystemPath() != b.System || c.Opened() != On {
				t.Errorf("found %s, %s", c.SystemPath(), c.Opened())
			}
			look, err := c.ReadSystem(t.Context())
			if err != nil || look.Offers(ResetForceOff) != b.Want.Fences {
				t.Errorf("%+v, %v", look, err)
			}
			for range 2 { // the second time it is off
				_ = c.AskOff(t.Context()) // neither its answer nor its error proves anything
				if err := c.ConfirmOff(t.Context()); (err == nil) != b.Want.Fences || b.Off() != b.Want.Fences {
					t.Errorf("off: %v, confirmed: %v", b.Off(), err)
				}
			}
			if err := c.Off(t.Context()); (err == nil) != b.Want.Fences {
				t.Errorf("switched off where it is: %v", err)
			}
			if resets, odd := b.Asked(); len(odd) != 0 || strings.ReplaceAll(strings.Join(resets, ""), "ForceOff", "") != "" {
				t.Errorf("asked %q, and %q", resets, odd)
			}
		})
	}
}

// refusedFirst checks that what must not be used without permission is not
// used.
func refusedFirst(t *testing.T, b *zootest.BMC, e Endpoint) {
	t.Helper()
	if e.LegacyTLS {
		e.LegacyTLS = false
		if _, err := Open(t.Context(), e); ReasonOf(err) != TLS {
			t.Errorf("older TLS without leave: %v", err)
		}
		return
	}
	_, err := Open(t.Context(), e)
	if differs := b.Want.Identity == "differs"; (ReasonOf(err) == WrongServer) != differs || (err == nil) == differs {
		t.Errorf("identity %s: %v", b.Want.Identity, err)
	}
	e.UUID, e.Serial = "99999999-0000-4000-8000-000000000001", "ANOTHER"
	if _, err := Open(t.Context(), e); ReasonOf(err) != WrongServer {
		t.Errorf("another host's: %v", err)
	}
}
