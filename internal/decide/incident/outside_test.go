package incident

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// tried plays attempts through the VIP, one for each word: "3+0.4:fails" began
// at second 3 and took 0.4 s.
func tried(t *testing.T, text string) Outside {
	t.Helper()
	var o Outside
	for word := range strings.FieldsSeq(text) {
		var at, took float64
		var what string
		if _, err := fmt.Sscanf(word, "%g+%g:%s", &at, &took, &what); err != nil {
			t.Fatalf("%q: %v", word, err)
		}
		from := began.Add(time.Duration(at * 1e9))
		a := Attempt{Began: from, Ended: from.Add(time.Duration(took * 1e9)), VIP: "10.0.0.5", Outside: true}
		switch what {
		case "reads":
			a.OK = true
		case "writes":
			a.OK, a.Write = true, true
		case "fails":
		case "has-it": // and the API answers it
			a.Outside, a.OK, a.Write = false, true, true
		default:
			t.Fatal(what)
		}
		o = o.Next(a)
	}
	return o
}

func TestATimeWithoutWritesEndsWithAWriteFromOutside(t *testing.T) {
	for sentence, c := range map[string]struct {
		play string
		want string
	}{
		"a write ends what began with the first failure":             {"0+0.1:reads 2+1:fails 3.5+1:fails 5+0.2:writes", "5.2: 3.2s"},
		"a read does not end it":                                     {"0+0.1:reads 2+1:fails 3.5+0.1:reads", ""},
		"nor does a write through a VIP that the machine has itself": {"0+0.1:reads 2+1:fails 3.5+1:has-it", ""},
		"what was before that counts no more":                        {"0+0.1:reads 2+1:fails 3.5+1:has-it 5+0.2:writes", ""},
		"who never could write measures nothing":                     {"0+1:fails 3+0.1:writes", ""},
		"a connection that is made anew is no time without":          {"0+0.1:reads 2+0.1:fails 2.6+0.1:writes", ""},
		"there may be two": {
			"0+0.1:reads 2+1:fails 5+0.2:writes 6+1:fails 9+0.2:writes", "5.2: 3.2s, 9.2: 3.2s",
		},
		"all is well": {"0+0.1:reads 2+0.1:reads 4+0.1:writes", ""},
	} {
		var got []string
		for _, g := range tried(t, c.play).Gaps {
			got = append(got, fmt.Sprintf("%g: %s", g.Until.Sub(began).Seconds(), g.Long))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", sentence, s, c.want)
		}
	}
}

func TestAMachineWritesWhileTheAPIDoesNotAnswerAndUntilThatIsTold(t *testing.T) {
	for sentence, c := range map[string]struct {
		play string
		at   float64
		want bool
	}{
		"nothing is known yet":             {"", 0, false},
		"all is well":                      {"0+0.1:reads", 2, false},
		"an attempt failed":                {"0+0.1:reads 2+1:fails", 3, true},
		"a time without has just ended":    {"0+0.1:reads 2+1:fails 5+0.2:writes", 14, true},
		"and that has been told long ago":  {"0+0.1:reads 2+1:fails 5+0.2:writes", 16, false},
		"a machine that never could write": {"0+1:fails", 2, false},
	} {
		if got := tried(t, c.play).Writes(began.Add(time.Duration(c.at * 1e9))); got != c.want {
			t.Errorf("%s: %t", sentence, got)
		}
	}
}

func TestEachWriteChangesWhatIsWritten(t *testing.T) {
	if o := (Outside{}); o.Text(began) == o.Text(began.Add(time.Millisecond)) {
		t.Error("the API server leaves out a write that changes nothing")
	}
}

func TestWhatMachinesShowIsReadAsFarAsItIsUnderstood(t *testing.T) {
	gap := tried(t, "0+0.1:reads 2+1:fails 5+0.2:writes")
	ahead := tried(t, "0+0.1:reads 2+1:fails 5+0.2:writes")
	ahead.Gaps[0].Ahead = time.Minute
	got := Measured("cp-1", map[string]string{
		"worker-1": gap.Text(began), "worker-2": ahead.Text(began), "worker-3": "{", "worker-4": "",
		"worker-5": `{"gaps":[{"until":"2026-11-20T09:00:09Z","longNanoseconds":3000000000,"vip":"the VIP\u001b"}]}`,
		"worker-6": `{"gaps":[{"until":"2026-11-20T09:00:09Z","longNanoseconds":-3,"vip":"10.0.0.5"}]}`,
	}, began)
	var words []string
	for _, r := range got {
		words = append(words, fmt.Sprintf("%s %g: %s", r.Who, r.At.Sub(began).Seconds(), r.Took))
	}
	if s := strings.Join(words, ", "); s != "worker-1 5.2: 3.2s, worker-2 65.2: 3.2s" {
		t.Error(s)
	}
	if late := Measured("cp-1", map[string]string{"worker-1": gap.Text(began)}, began.Add(time.Minute)); len(late) != 0 {
		t.Errorf("of before: %v", late)
	}
}

func TestNoMachineMeasuresWhatIsYetToComeNorMoreThanItPublishes(t *testing.T) {
	wrote := func(who string, at time.Time) Record { return Record{Host: "cp-1", At: at, Kind: Wrote, Who: who} }
	kept := []Record{{Host: "cp-1", At: began, Kind: Recorded}, wrote("worker-1", began.Add(time.Second)), wrote("worker-1", began.Add(time.Minute+apart))}
	records := append(slices.Clone(kept), wrote("worker-1", began.Add(time.Minute+apart+1)), wrote("worker-1", began.AddDate(73, 0, 0)))
	if got := Believed(Unique(records), began.Add(time.Minute)); !slices.EqualFunc(got, kept, func(a, b Record) bool { return a.Key() == b.Key() }) {
		t.Errorf("%v", got)
	}
	if got := Believed(kept[:2], began.AddDate(0, -3, 0)); len(got) != 2 { // a clock that is behind after a boot
		t.Errorf("a clock that is behind: %v", got)
	}
	for i := range 3 * keptGaps {
		records = append(kept, wrote("worker-2", began.Add(time.Duration(i)*time.Second)))
		kept = Believed(Unique(records), began.Add(time.Minute))
	}
	if n := len(kept); n != 3+keptGaps || !kept[n-2].At.Equal(began.Add((3*keptGaps-1)*time.Second)) {
		t.Errorf("%d: %v", n, kept)
	}
}

// TestWhatWasMeasuredIsOneRecordWhoeverReadIt lets both hosts read one Lease.
func TestWhatWasMeasuredIsOneRecordWhoeverReadIt(t *testing.T) {
	text := paired + takeOver + "4.9 cp-1 wrote worker-1 4.4s\n4.9 cp-2 wrote worker-1 4.4s\n" + comesBack
	i := Assemble(scenario(t, text))[0]
	n := strings.Count(i.Words(), "worker-1 writes through") + strings.Count(i.Words(), "  writes through")
	if n != 1 || strings.Join(i.Journals, " ") != "cp-1 cp-2" {
		t.Errorf("%d times, journals %v", n, i.Journals)
	}
}

// TestNoReportClaimsWritesThatNobodyMeasured compares every scenario's report
// with what was measured from outside.
func TestNoReportClaimsWritesThatNobodyMeasured(t *testing.T) {
	for _, s := range scenarios {
		for _, i := range Assemble(scenario(t, s.text)) {
			e, _ := Told(i, i.Start.Add(time.Hour))
			for _, text := range []string{i.Words(), e.Message} {
				claims := strings.Contains(strings.Join(strings.Fields(text), " "), "Clients could write")
				if strings.Contains(text, "possible") || claims && !strings.Contains(s.text, " wrote ") {
					t.Errorf("%s: %s", s.name, text)
				}
			}
		}
	}
}
