package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestTheDashboardSaysWhereItIsServesAndEndsCleanly(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r, w := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- Run(ctx, Streams{In: strings.NewReader(""), Out: w, Err: io.Discard}, []string{"dashboard", "--kubeconfig", noAPI(t)})
	}()
	url, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	if !strings.HasPrefix(url, "http://127.0.0.1:") {
		t.Errorf("it serves at %s", url)
	}
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || !strings.Contains(string(page), "does not answer: dial tcp 127.0.0.1:1: connect: connection refused") {
		t.Errorf("%v\n%s", err, page)
	}
	stop()
	if code := <-ended; code != ExitOK {
		t.Errorf("exit code %d", code)
	}
}
