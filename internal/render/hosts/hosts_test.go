package hosts_test

import (
	"net/netip"
	"testing"

	"github.com/holdfast/holdfast/internal/render/hosts"
)

func TestOnlyHoldfastsPartChanges(t *testing.T) {
	const own = "# holdfast: the API's names, since no name server knows them\n10.98.0.11 api-int.shop.example.test api.shop.example.test\n# holdfast: end\n"
	const old = "# holdfast: the API's names, since no name server knows them\n10.1.1.1 api-int.shop.example.test\n# holdfast: end\n"
	for name, c := range map[string]struct{ before, after string }{
		"an empty file":              {"", own},
		"a file with other entries":  {"127.0.0.1 localhost\n\n# mine\n", "127.0.0.1 localhost\n\n# mine\n" + own},
		"no line end at the end":     {"127.0.0.1 localhost", "127.0.0.1 localhost\n" + own},
		"an older part at the end":   {"127.0.0.1 localhost\n" + old, "127.0.0.1 localhost\n" + own},
		"an older part in between":   {"127.0.0.1 localhost\n" + old + "10.2.2.2 x\n", "127.0.0.1 localhost\n10.2.2.2 x\n" + own},
		"the same part again":        {"127.0.0.1 localhost\n" + own, "127.0.0.1 localhost\n" + own},
		"a part whose end was taken": {"# holdfast: the API's names, since no name server knows them\n10.2.2.2 x\n", "10.2.2.2 x\n" + own},
	} {
		got := hosts.Set([]byte(c.before), netip.MustParseAddr("10.98.0.11"), "api-int.shop.example.test", "api.shop.example.test")
		if string(got) != c.after {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
