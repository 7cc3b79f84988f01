<?php
// Responds to each request with what PHP reads from it: php -S 127.0.0.1:PORT php_server.php

$lists = fn(array $read) => (object) array_map(fn($value) => [$value], $read);
$files = [];
foreach ($_FILES as $name => $file) {
    $files[$name] = [[$file['name'], base64_encode(file_get_contents($file['tmp_name']))]];
}
header('Content-Type: application/json');
$read = json_encode([
    'path' => rawurldecode(explode('?', $_SERVER['REQUEST_URI'])[0]),
    'query' => $lists($_GET),
    'form' => $lists($_POST),
    'files' => (object) $files,
    'json' => json_decode(file_get_contents('php://input')),
], JSON_INVALID_UTF8_SUBSTITUTE);
header('Content-Length: ' . strlen($read)); // the gateway exposes values only with a response of a known length
echo $read;
