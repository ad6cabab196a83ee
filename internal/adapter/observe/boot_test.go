package observe

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

func TestABootIsNamedByItsFirstProcess(t *testing.T) {
	a, before, err := Boot()
	if err != nil {
		t.Fatal(err)
	}
	b, after, _ := Boot()
	stat, err := os.ReadFile("/proc/1/stat")
	if err != nil {
		t.Fatal(err)
	}
	first, err := host.ParseStat(stat)
	if err != nil || !strings.HasSuffix(a, fmt.Sprintf("-%d", first.Started)) {
		t.Errorf("%s is not named by %+v (%v)", a, first, err)
	}
	if a != b || after < before {
		t.Errorf("%s at %s, then %s at %s", a, before, b, after)
	}
}
