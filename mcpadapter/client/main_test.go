package client

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain runs the tests, or a server on the standard streams if the environment says which.
func TestMain(m *testing.M) {
	switch mode := os.Getenv("TEST_SERVER"); mode {
	case "":
		os.Exit(m.Run())
	case "wait":
		time.Sleep(10 * time.Minute)
	default:
		runProcess(mode)
	}
}

// runProcess is an MCP server of 2025-11-25. Modes are separated by spaces.
func runProcess(mode string) {
	is := func(name string) bool { return strings.Contains(mode, name) }
	if is("stubborn") {
		signal.Ignore(syscall.SIGTERM)
	}
	if is("noisy") {
		line := strings.Repeat("x", maxLoggedLine*2)
		for i := range maxLoggedPerRun + 100 {
			fmt.Fprintln(os.Stderr, i, line)
		}
	}
	child := 0
	if is("child") {
		c := exec.Command(os.Args[0])
		c.Env = []string{"TEST_SERVER=wait"}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr // holds the streams
		if is("leaves") {
			c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		}
		if err := c.Start(); err == nil {
			child = c.Process.Pid
		}
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var q received
		if json.Unmarshal(line, &q) != nil || len(q.ID) == 0 {
			continue
		}
		var result string
		switch q.Called {
		case methodInitialize:
			fmt.Println("a line of a log")
			result = legacyHello
		case methodListTools:
			if is("asks") { // for roots while the gateway lists its tools
				fmt.Println(`{"jsonrpc":"2.0","id":"r","method":"roots/list"}`)
				answer, _ := lines.ReadString('\n')
				fmt.Fprint(os.Stderr, answer)
			}
			result = oneTool
		case methodCallTool:
			text, _ := json.Marshal(map[string]any{"pid": os.Getpid(), "child": child, "env": os.Environ(), "arguments": q.Params.Arguments, "tool": q.Params.Name})
			result = `{"content":[{"type":"text","text":` + strconv.Quote(string(text)) + `}]}`
			switch q.Params.Name {
			case "exit":
				os.Exit(3)
			case "garbled":
				fmt.Printf(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%c%c"}}`+"\n", 0xFFFD, 0xFFFD)
				os.Stdout.WriteString(`{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"` + "\xff" + `"}}` + "\n")
				fmt.Println(`{"level":"info","text":"a line of a log"}`)
				os.Stdout.WriteString(`{"jsonrpc":"2.0","result":{"id":99,"text":"a","text":"` + "\xff\xfe" + `"},"id":` + string(q.ID) + "}\n")
				continue
			case "cut":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[`+"\n", q.ID)
				continue
			case "deaf":
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{}}`+"\n", q.ID)
				time.Sleep(time.Hour)
			case "large":
				result = `{"x":"` + strings.Repeat("x", defaultMaxMessage) + `"}`
			}
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`+"\n", q.ID)
			continue
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", q.ID, result)
	}
	if is("stubborn") {
		time.Sleep(time.Hour)
	}
}
