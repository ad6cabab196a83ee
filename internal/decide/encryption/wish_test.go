package encryption_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/decide/encryption"
)

func TestWhatIsToldOfARotationOfKeysThatIsNotOver(t *testing.T) {
	kept, gone := hosts(keys{2}, keys{2, 1}), hosts(keys{2}, keys{2, 1})
	kept[1].Kept, gone[1].Ready = true, false
	away := hosts(keys{1, 2}, keys{1, 2})
	away[1].Ready = false
	for name, c := range map[string]struct {
		seen encryption.Seen
		want encryption.Kind // empty for nothing
		why  string
	}{
		"nothing is under way":            {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: hosts(keys{2}, keys{2})}, "", ""},
		"as installed":                    {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, keys{1})}, "", ""},
		"the site has no keys":            {encryption.Seen{Hosts: hosts(nil, nil)}, "", ""},
		"one does not say":                {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, nil)}, "", ""},
		"nobody is known":                 {encryption.Seen{}, "", ""},
		"one is away with an older key":   {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: gone}, "", ""},
		"one has no Node":                 {encryption.Seen{Wish: keys{1}, Hosts: hosts(keys{1}, keys{1})[:1]}, "", ""},
		"it was cut off after its first":  {encryption.Seen{Wish: keys{1, 2}, Hosts: hosts(keys{1, 2}, keys{1, 2})}, encryption.Ask, "write with key 2"},
		"all write with it":               {encryption.Seen{Wish: keys{2, 1}, Hosts: hosts(keys{2, 1}, keys{2, 1})}, encryption.Rewrite, "rewritten with key 2"},
		"all is rewritten":                {encryption.Seen{Wish: keys{2, 1}, Rewritten: 2, Hosts: hosts(keys{2, 1}, keys{2, 1})}, encryption.Ask, "key 1 is dropped"},
		"it waits for one that is away":   {encryption.Seen{Wish: keys{1, 2}, Hosts: away}, encryption.Refuse, "cp-2 not ready"},
		"one drops the old key yet":       {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: hosts(keys{2}, keys{2, 1})}, encryption.Wait, "cp-2 to load: key 2"},
		"one has another key":             {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: hosts(keys{2}, keys{1})}, encryption.Wait, "cp-2 to load: key 2"},
		"one keeps what others dropped":   {encryption.Seen{Wish: keys{2}, Rewritten: 2, Hosts: kept}, encryption.Ask, "cp-2 may have written with key 1"},
		"the wish is not known":           {encryption.Seen{Hosts: hosts(keys{1, 2}, keys{1, 2})}, encryption.Ask, "write with key 2"},
		"nor is it, and all have one key": {encryption.Seen{Hosts: hosts(keys{2}, keys{2})}, "", ""},
	} {
		step, is := c.seen.Unfinished()
		if is != (c.want != "") || step.Kind != c.want || !strings.Contains(step.Why, c.why) || c.want == "" && step.Why != "" {
			t.Errorf("%s: %t %+v", name, is, step)
		}
	}
}

func TestSinceWhenARotationOfKeysTakesLongerThanItShould(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		wish      encryption.Wish
		unsettled bool
		want      time.Time
	}{
		"none is under way":           {encryption.Wish{Keys: keys{2}, At: at}, false, time.Time{}},
		"nobody wished anything":      {encryption.Wish{}, false, time.Time{}},
		"one is":                      {encryption.Wish{Keys: keys{1, 2}, At: at}, false, at.Add(2 * time.Hour)},
		"a host keeps a key":          {encryption.Wish{Keys: keys{2}, At: at}, true, at.Add(2 * time.Hour)},
		"nobody says since when":      {encryption.Wish{Keys: keys{1, 2}}, false, time.Unix(0, 0)},
		"a host keeps one, and ditto": {encryption.Wish{}, true, time.Unix(0, 0)},
	} {
		if got := c.wish.Late(c.unsettled); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestAWishIsReadAsItWasWritten(t *testing.T) {
	w := encryption.Wish{Keys: keys{2, 1}, Rewritten: 2, At: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	if got, err := encryption.ReadWish(w.Data()); err != nil || !reflect.DeepEqual(got, w) {
		t.Errorf("%+v %v", got, err)
	}
	// As an earlier release, or a person, writes it.
	if got, err := encryption.ReadWish(map[string]string{"keys": "1,2", "rewritten": "x", "at": "yesterday"}); err != nil || !reflect.DeepEqual(got, encryption.Wish{Keys: keys{1, 2}}) {
		t.Errorf("%+v %v", got, err)
	}
	if got, err := encryption.ReadWish(nil); err != nil || !reflect.DeepEqual(got, encryption.Wish{}) {
		t.Errorf("%+v %v", got, err)
	}
	if _, err := encryption.ReadWish(map[string]string{"keys": "none"}); err == nil || !strings.Contains(err.Error(), "ConfigMap kube-system/holdfast-encryption: keys") {
		t.Errorf("%v", err)
	}
}
