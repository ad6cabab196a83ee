package bmc

import "testing"

func TestTwoSpellingsOfOneBMCAreEqual(t *testing.T) {
	pairs := [][2]string{
		{"https://BMC.example.com", "redfish://bmc.example.com.:443/"},
		{"https://10.0.0.5/redfish/v1/Systems/1", "idrac-redfish+https://10.0.0.5:443/redfish/v1/Systems/1/"},
		{"https://[fd99::0a]/redfish/v1", "https://[FD99:0::A]"},
		{"https://[::ffff:10.0.0.5]", "ilo5-virtualmedia://10.0.0.5"},
	}
	for _, p := range pairs {
		a, errA := Parse(p[0])
		b, errB := Parse(p[1])
		if errA != nil || errB != nil || a != b {
			t.Errorf("%s is %+v (%v), %s is %+v (%v)", p[0], a, errA, p[1], b, errB)
		}
	}
	a, _ := Parse("https://[fd99::a]:8443/redfish/v1/Systems/x")
	if got, want := a.URL(), "https://[fd99::a]:8443"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestSystemsOfOneChassisMayShareABMC(t *testing.T) {
	a, _ := Parse("https://10.0.0.5/redfish/v1/Systems/1")
	b, _ := Parse("https://10.0.0.5/redfish/v1/Systems/2")
	if a.SameSystem(b) {
		t.Error("two systems taken for one")
	}
}

// FuzzParse shows that an accepted address, written in its plain form, is read
// back as the same one, and that errors hold nothing of the input.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"https://10.0.0.5", "redfish+https://bmc.example.com:8443/redfish/v1/Systems/1/",
		"https://[fd99::a]:443", "ipmi://10.0.0.5", "https://u:p@h", "https://[::ffff:1.2.3.4]/redfish/v1/",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Parse(text)
		if err != nil {
			return
		}
		if again, err := Parse(a.URL()); err != nil || again.Host != a.Host || again.Port != a.Port {
			t.Fatalf("%q is %+v, and %q is %+v: %v", text, a, a.URL(), again, err)
		}
	})
}
