package host

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAQuestionThatHangsIsAnsweredInTimeAndAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, release := 0, make(chan struct{})
		ask := Limited("the look at the disk", 2*time.Second, func() (int, error) {
			asked++
			<-release
			return 7, errors.New("read")
		})
		began := time.Now()
		if _, err := ask(); err == nil || !strings.Contains(err.Error(), "within 2s") || time.Since(began) != 2*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		time.Sleep(3 * time.Second)
		if _, err := ask(); err == nil || !strings.Contains(err.Error(), "has hung for 5s") || asked != 1 {
			t.Errorf("asked %d times: %v", asked, err)
		}
		close(release)
		synctest.Wait()
		if got, err := ask(); got != 7 || err == nil || err.Error() != "read" || asked != 2 {
			t.Errorf("%d, %v after %d", got, err, asked)
		}
	})
}
